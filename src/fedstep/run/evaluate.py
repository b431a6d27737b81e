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
from fedstep.models.flat import FlatModel, seeded
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
class Pass:
    """The outcome of one chunk of samples."""

    losses: Tensor  # (N,) float64
    predictions: Tensor | None
    targets: Tensor


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
    losses: list[Tensor] = []
    sums: dict[str, Sums] = {}
    first = 0
    for outcome in _passes(model, x, fields, transform, chunk):
        # the predictions' shape decides, which nobody knows before the first pass
        if metrics is None:
            metrics = default_metrics(outcome.predictions, outcome.targets)
        losses.append(outcome.losses)
        count = len(outcome.targets)
        counted = None
        if weights is not None:
            counted = weights[first : first + count]
        first += count
        for metric in metrics:
            more = _statistics(metric, outcome, counted)
            sums[metric.name] = merge(sums.get(metric.name, {}), more)
    if not losses:
        return Score.unknown(metrics or ())
    # one mean over all samples: sums of chunks would round otherwise, and rows would change
    loss = float(torch.cat(losses).mean())
    values = {metric.name: metric.value(sums[metric.name]) for metric in metrics or ()}
    return Score(loss, values)


def usual_metrics(
    model: FlatModel,
    x: Vec,
    fields: tuple[Tensor, ...],
    transform: Transform | None = None,
) -> tuple[Metric, ...]:
    """The metrics that `evaluate` would take of such samples, from a pass over the first one."""
    first = tuple(f[:1] for f in fields)
    for outcome in _passes(model, x, first, transform, 1):
        return default_metrics(outcome.predictions, outcome.targets)
    return ()


def loss_over_clients(model: FlatModel, x: Vec, federation: Federation) -> float:
    """The mean over all clients of their mean loss, every client counting the same."""
    passes = _passes(model, x, federation.fields, federation.transform, CHUNK)
    losses = torch.cat([outcome.losses for outcome in passes])
    return float(torch.stack([losses[part].mean() for part in federation.parts]).mean())


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
            samples = tuple(transform(samples, None))
        samples = tuple(f.to(x.device) for f in samples)
        batch = Batch(samples, x.new_tensor(1.0), torch.tensor(0))
        # the grad mode is closed before each yield: it must not leak into the caller
        with torch.no_grad(), seeded(0, x.device):
            losses, predictions = model.values(x, batch)
        if losses.dim() > 1:
            losses = losses.flatten(1).mean(1)
        losses = losses.double().expand(len(samples[-1])).cpu()
        yield Pass(losses, predictions, samples[-1])


def _statistics(metric: Metric, outcome: Pass, weights: Tensor | None) -> Sums:
    if outcome.predictions is None:
        raise InputError(f"metric {metric.name}: the model gives a loss and no predictions")
    problem = metric.problem(outcome.predictions, outcome.targets)
    if problem is not None:
        raise InputError(f"metric {metric.name}: {problem}")
    return metric.statistics(outcome.predictions, outcome.targets, weights)
