"""Warnings within the first five rounds, each one line with a remedy; healthy runs have none."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedstep.callbacks.base import Callback, RoundEnd, RunStart
from fedstep.data.federation import Federation
from fedstep.data.parts import label_counts
from fedstep.models.flat import FlatModel
from fedstep.models.loss_kinds import LossKind
from fedstep.models.module import ModuleModel
from fedstep.models.standardize import Standardize
from fedstep.run.record import RoundReport
from fedstep.run.simulate import Simulation

FIRST = 5  # rounds within which everything is said
SEARCHES = 2  # rounds after which failed searches are no accident
MOST = 0.5  # of the weight, or of the clients
NEARLY_ALL = 0.9  # of the searches
FEW_LABELS = 5  # one in so many of the labels is few
SCALES = 1e3  # columns whose ranges differ by more are hard to learn together
NULL = 1e-7  # a step that moves nothing
FLAT = 1e-3  # relative change of a loss on the same samples
FLAT_ON_BATCHES = 1e-2  # the same where every round has other samples
ABOVE_CHANCE = 0.2  # an accuracy so far above chance is learning, whatever the loss does
USUAL_BATCH_MARGIN = 3  # a batch that nobody chose may be so many times larger than most clients
DEVIATIONS = 2  # of a share of samples that is chance


class EarlyWarning(UserWarning):
    """A run that will probably not give what is hoped for."""


@dataclass
class EarlyWarnings(Callback):
    """Looks at the clients before the first round and at the rows of the first five."""

    simulation: Simulation
    batch_given: bool = True  # False: the batch is the usual one
    said: list[str] = field(default_factory=list, init=False)
    _rows: list[RoundReport] = field(default_factory=list, init=False, repr=False)

    def start(self, run: RunStart) -> None:
        self.said.clear()
        self._rows = list(run.earlier)
        # a run that goes on has said it already
        if self._rows:
            return
        margin = 1
        if not self.batch_given:
            # nobody chose it: what is only a little too large does no harm
            margin = USUAL_BATCH_MARGIN
        for line in data_lines(self.simulation, margin):
            self._say(line)

    def round(self, moment: RoundEnd) -> None:
        if len(self._rows) >= FIRST:
            return
        self._rows.append(moment.report)
        over = moment.last or len(self._rows) == FIRST
        if over or len(self._rows) == SEARCHES:
            for line in search_lines(self._rows):
                self._say(line)
        if len(self._rows) == FIRST:
            chance = _chance(self.simulation)
            for line in outcome_lines(self._rows, chance):
                self._say(line)

    def _say(self, line: str) -> None:
        if line in self.said:
            return
        self.said.append(line)
        warnings.warn(line, EarlyWarning, stacklevel=2)


def data_lines(simulation: Simulation, batch_margin: int = 1) -> Iterator[str]:
    """What the clients' samples alone show.

    batch_margin: how many times smaller than the batch most clients may be.
    """
    task = simulation.task
    federation = task.federation
    yield from _weight_lines(task.algorithm.weighting(federation.sizes))
    yield from _batch_lines(federation.sizes, task.plan.batch, batch_margin)
    if federation.transform is None:
        if not _predicts_numbers(task.model):
            yield from _label_lines(federation)
        if not _is_standardized(task.model):
            yield from _scale_lines(federation.fields[0])


def _predicts_numbers(model: FlatModel) -> bool:
    # whole numbers are no labels then
    return isinstance(model, ModuleModel) and model.loss_kind is LossKind.NUMBERS


def _weight_lines(weights: Tensor) -> Iterator[str]:
    share = float(weights.max() / weights.sum())
    # of two clients one has half of the weight, and that is as it must be
    if len(weights) > 2 and share > MOST:
        client = int(weights.argmax())
        yield (
            f"client {client} has {share:.0%} of the weight: "
            "give weighting='equal', or cut it into several clients"
        )


def _batch_lines(sizes: Tensor, batch: int, margin: int = 1) -> Iterator[str]:
    smaller = float((margin * sizes < batch).double().mean())
    if smaller > MOST:
        median = int(sizes.double().median())
        yield (
            f"batch={batch} is larger than {smaller:.0%} of the clients (median {median} samples): "
            f"every step sees all they have; give batch={max(1, median // 4)}"
        )


def _label_lines(federation: Federation) -> Iterator[str]:
    targets = federation.fields[-1]
    if targets.dim() != 1 or targets.is_floating_point() or len(federation) < 2:
        return
    if len(targets) == 0 or int(targets.min()) < 0:
        return
    # the median client: a few specialists among many are no reason to warn
    counts = label_counts(federation.parts, targets.numpy())
    occurring = int((counts.sum(0) > 0).sum())
    median = sorted((counts > 0).sum(1).tolist())[len(federation) // 2]
    if occurring > 1 and median <= max(1, occurring // FEW_LABELS):
        yield (
            f"half of the clients have at most {median} of the {occurring} labels: give fewer "
            "local_steps, or a method with a correction such as 'scaffold'"
        )


def _is_standardized(model: FlatModel) -> bool:
    if not isinstance(model, ModuleModel):
        return False
    return any(isinstance(layer, Standardize) for layer in model.module.modules())


def _scale_lines(inputs: Tensor) -> Iterator[str]:
    if inputs.dim() != 2 or not inputs.is_floating_point() or inputs.shape[1] < 2:
        return
    ranges = inputs.amax(0) - inputs.amin(0)
    # ranges and not deviations: a pixel that is hardly ever inked has a tiny deviation
    varying = ranges[torch.isfinite(ranges) & (ranges > 0)]
    if len(varying) < 2:
        return
    ratio = float(varying.max() / varying.min())
    if ratio > SCALES:
        yield (
            f"columns of the inputs differ by {ratio:.0e} in scale: give standardize=True, "
            "or scale them"
        )


def search_lines(rows: Sequence[RoundReport]) -> Iterator[str]:
    """Searches that find nothing."""
    # of all rounds so far: one bad batch is no trend
    failed = sum(row.failed for row in rows)
    searched = sum(row.backwards for row in rows if row.trials > 0)
    if failed and all(math.isnan(row.steps[2]) for row in rows):
        yield (
            "every search failed, nothing was trained: scale the inputs (standardize=True), "
            "or lower max_step"
        )
    elif searched and failed > NEARLY_ALL * searched:
        yield (
            f"{failed / searched:.0%} of the searches found no step: scale the inputs "
            "(standardize=True), or lower max_step"
        )


@dataclass(frozen=True)
class Chance:
    """What guessing would give."""

    accuracy: float
    samples: int

    @property
    def limit(self) -> float:
        """Up to here an accuracy is no better."""
        noise = math.sqrt(self.accuracy * (1 - self.accuracy) / self.samples)
        return self.accuracy + DEVIATIONS * noise


def outcome_lines(rows: Sequence[RoundReport], chance: Chance | None) -> Iterator[str]:
    """A loss that does not fall, and an accuracy that is no better than guessing."""
    last = rows[-1]
    accuracy = last.accuracy
    if math.isnan(accuracy):
        accuracy = last.validation.get("accuracy", math.nan)
    if chance is not None and accuracy <= chance.limit:
        yield (
            f"accuracy {accuracy:.3f} after {last.round} rounds is chance ({chance.accuracy:.3f}): "
            "check that inputs and labels belong together, and the last layer's number of classes"
        )
    if chance is not None and accuracy > chance.accuracy + ABOVE_CHANCE:
        return
    if last.test.get("r2", -math.inf) > ABOVE_CHANCE:
        return
    if not _is_flat(rows):
        return
    median_step = last.steps[2]
    if median_step < NULL:
        yield (
            f"nearly all steps are null (median {median_step:.0e}): scale the inputs "
            "(standardize=True)"
        )
        return
    yield (
        f"the loss is flat ({rows[0].loss:.4g}, then {last.loss:.4g} after {last.round} rounds): "
        "scale the inputs (standardize=True), or check model, loss and labels"
    )


def _is_flat(rows: Sequence[RoundReport]) -> bool:
    losses = [row.test_loss for row in rows if not math.isnan(row.test_loss)]
    limit = FLAT
    if len(losses) < 2:
        # of other clients in every round: it moves by chance even where nothing is learnt
        losses = [row.loss for row in rows]
        limit = FLAT_ON_BATCHES
    size = abs(losses[0])
    if not math.isfinite(size) or size == 0:
        return False
    return max(losses) - min(losses) <= limit * size


def _chance(simulation: Simulation) -> Chance | None:
    """Of the scored samples' classes; None where there are none."""
    fields = simulation.test
    if fields is None:
        fields = simulation.validation
    if fields is None or len(fields) < 2:
        return None
    targets = fields[-1]
    if targets.is_floating_point() or targets.dim() != 1:
        return None
    # of the classes that occur: a model may have outputs that nobody needs
    classes = len(torch.unique(targets))
    if classes < 2:
        return None
    return Chance(1 / classes, len(targets))
