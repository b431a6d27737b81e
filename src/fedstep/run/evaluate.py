"""Loss and metrics of a model on samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.core.vec import Vec
from fedstep.data.federation import Federation, Transform
from fedstep.models.flat import FlatModel
from fedstep.models.means import counted_sums
from fedstep.models.seeded import seeded
from fedstep.run.metrics.base import Metric, Sums, merge
from fedstep.run.metrics.choose import default_metrics

CHUNK = 2000  # samples of a forward pass: a bound on the memory, not on the result


@dataclass(frozen=True)
class Score:
    """The mean loss over the samples, and the metrics by name."""

    loss: float = nan
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        """The metric of that name; NaN where it was not measured."""
        return self.metrics.get("accuracy", nan)

    @staticmethod
    def unknown(metrics: Sequence[Metric]) -> Score:
        """What stands in a row where nothing was evaluated: every column, no number."""
        return Score(nan, {metric.name: nan for metric in metrics})


@dataclass(frozen=True)
class SampleLosses:
    """What is kept of a chunk until the mean is taken: not the predictions, which may be large."""

    losses: Tensor  # (N,) float64
    counts: Tensor | None  # (N,) how many targets of a sample count; None: all of each


@dataclass(frozen=True)
class Pass:
    """The outcome of one chunk of samples."""

    sample_losses: SampleLosses
    predictions: Tensor | None  # None: the model gives a loss only
    targets: Tensor
    counted: Tensor | None  # which targets count; None: all
    scores: Tensor | None  # predictions and targets as metrics of classes see them
    labels: Tensor

    def compared_by(self, metric: Metric) -> tuple[Tensor, Tensor]:
        """Predictions and targets as a metric takes them."""
        if self.predictions is None or self.scores is None:
            raise InputError(f"metric {metric.name}: the model gives a loss and no predictions")
        if metric.of_classes:
            return self.scores, self.labels
        return self.predictions, self.targets

    def usual_metrics(self) -> tuple[Metric, ...]:
        """What is measured where nothing is named."""
        binary = self.scores is not self.predictions
        return default_metrics(self.scores, self.labels, binary)


def evaluate(
    model: FlatModel,
    x: Vec,
    fields: tuple[Tensor, ...],
    transform: Transform | None = None,
    chunk: int = CHUNK,
    metrics: Sequence[Metric] | None = None,
    weights: Tensor | None = None,
) -> Score:
    """Score x on the samples; `model` should be in its evaluating form.

    metrics: None takes those that are usual for such targets. weights: what every sample (or every
    one of its targets) counts in the metrics; those of 0, such as padding, do not count at all.
    The loss is that of the model's own loss function, over all samples.
    """
    losses: list[SampleLosses] = []
    sums: dict[str, Sums] = {}
    first = 0
    for outcome in _passes(model, x, fields, transform, chunk):
        # the predictions' shape decides, which nobody knows before the first pass
        if metrics is None:
            metrics = outcome.usual_metrics()
        losses.append(outcome.sample_losses)
        count = len(outcome.targets)
        counted = outcome.counted
        if weights is not None:
            counted = weights[first : first + count]
        first += count
        for metric in metrics:
            more = _statistics(metric, outcome, counted)
            so_far = sums.get(metric.name, {})
            sums[metric.name] = merge(so_far, more)
    if not losses:
        return Score.unknown(metrics or ())
    # one mean over all samples: sums of chunks would round otherwise, and rows would change
    loss = float(_mean_loss(losses))
    values = {}
    for metric in metrics or ():
        values[metric.name] = metric.value(sums[metric.name])
    return Score(loss, values)


def usual_metrics(
    model: FlatModel,
    x: Vec,
    fields: tuple[Tensor, ...],
    transform: Transform | None = None,
) -> tuple[Metric, ...]:
    """The metrics that `evaluate` would take of such samples, from a pass over the first one."""
    # one sample is enough: shapes and types decide, not values
    first = tuple(f[:1] for f in fields)
    for outcome in _passes(model, x, first, transform, 1):
        return outcome.usual_metrics()
    return ()


def number_of_outputs(model: FlatModel, fields: tuple[Tensor, ...]) -> int | None:
    """How many classes a model tells apart, from a pass over the first sample; None: unknown."""
    *inputs, targets = (field[:1] for field in fields)
    # with label 0, which every model has an output for
    sample = (*inputs, torch.zeros_like(targets))
    try:
        outcome = next(_passes(model.evaluating(), model.init(), sample, None, chunk=1))
    except Exception:
        # any error of the user's code: the run meets it again and says where
        return None
    if outcome.predictions is None or outcome.predictions.dim() != 2:
        return None
    return outcome.predictions.shape[1]


def loss_over_clients(
    model: FlatModel,
    x: Vec,
    federation: Federation,
) -> float:
    """The mean over all clients of their mean loss, every client counting the same."""
    passes = _passes(
        model,
        x,
        federation.fields,
        federation.transform,
        CHUNK,
    )
    # all samples in one go, not client by client: small clients would waste the passes
    every_pass = [outcome.sample_losses for outcome in passes]
    losses = torch.cat([chunk.losses for chunk in every_pass])
    counts = _counts(every_pass)
    client_means = []
    for part in federation.parts:
        if counts is None:
            client_means.append(losses[part].mean())
        else:
            client_means.append(_weighted_mean(losses[part], counts[part]))
    return float(torch.stack(client_means).mean())


def _mean_loss(passes: Sequence[SampleLosses]) -> Tensor:
    """Over all samples, or over all targets that count where some do not."""
    losses = torch.cat([chunk.losses for chunk in passes])
    counts = _counts(passes)
    if counts is None:
        return losses.mean()
    return _weighted_mean(losses, counts)


def _counts(passes: Sequence[SampleLosses]) -> Tensor | None:
    counts = [chunk.counts for chunk in passes if chunk.counts is not None]
    if not counts:
        return None
    return torch.cat(counts)


def _weighted_mean(losses: Tensor, counts: Tensor) -> Tensor:
    return (losses * counts).sum() / counts.sum()


def _passes(
    model: FlatModel,
    x: Vec,
    fields: tuple[Tensor, ...],
    transform: Transform | None,
    chunk: int,
) -> Iterator[Pass]:
    """The samples in chunks through the model, without gradients."""
    for first in range(0, len(fields[-1]), chunk):
        samples = tuple(f[first : first + chunk] for f in fields)
        if transform is not None:
            # without a generator: nothing random in an evaluation
            samples = tuple(transform(samples, None))
        samples = tuple(f.to(x.device) for f in samples)
        batch = Batch(
            samples,
            x.new_tensor(1.0),
            torch.tensor(0),
        )
        # the grad mode is closed before each yield: it must not leak into the caller
        with torch.no_grad(), seeded(0, x.device):
            losses, predictions = model.values(x, batch)
        counted = model.counted(batch)
        counts = None
        if counted is not None and losses.dim() > 0:
            sums, numbers = counted_sums(losses, counted)
            losses = sums / numbers.clamp(min=1)
            counts = numbers.double().cpu()
        if losses.dim() > 1:
            # a loss a token: every sample counts the same, however long it is
            losses = losses.flatten(1).mean(1)
        # a loss that is a mean already stands for each of its samples
        count = len(samples[-1])
        losses = losses.double().expand(count).cpu()
        targets = model.targets(batch)
        scores = None
        labels = targets
        if predictions is not None:
            scores, labels = model.scores(predictions, targets)
        yield Pass(
            sample_losses=SampleLosses(losses, counts),
            predictions=predictions,
            targets=targets,
            counted=counted,
            scores=scores,
            labels=labels,
        )


def _statistics(
    metric: Metric,
    outcome: Pass,
    weights: Tensor | None,
) -> Sums:
    predictions, targets = outcome.compared_by(metric)
    problem = metric.problem(predictions, targets)
    if problem is not None:
        raise InputError(f"metric {metric.name}: {problem}")
    return metric.statistics(predictions, targets, weights)
