"""The protocol: start, round, end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fedstep.algorithm import Server
from fedstep.core.errors import InputError, unknown
from fedstep.run.columns import VALIDATION, MetricInfo
from fedstep.run.record import RoundReport


def hidden(first: Any = None) -> Any:
    """A field of a callback that is neither given nor shown: what it finds in the run under way."""
    return field(default=first, init=False, repr=False)


@dataclass(frozen=True)
class RunStart:
    """What is known before the first round of a call."""

    name: str  # of the method
    rounds: int  # that are planned
    settings: Mapping[str, Any]
    metrics: tuple[MetricInfo, ...]  # the first is the one to compare by
    folder: Path | None  # of fit(out=...)
    earlier: Sequence[RoundReport]  # rounds of earlier calls, where a run goes on
    notes: Sequence[str] = ()


@dataclass
class RoundEnd:
    """The end of a round: its report, the model, and a way to stop."""

    report: RoundReport
    rounds: int  # that are planned
    server: Server
    load: Callable[[Server], nn.Module | None] = field(repr=False)
    tensors: Callable[[Server], Mapping[str, Tensor]] = field(repr=False)
    reason: str | None = None  # why the run is to stop; None: it goes on

    @cached_property
    def model(self) -> nn.Module | None:
        """A copy of the model as it is now, in evaluation mode; None for a plain function."""
        return self.load(self.server)

    @property
    def last(self) -> bool:
        """Whether no round is left."""
        return self.report.round == self.rounds

    def stop(self, reason: str) -> None:
        """Ask for the run to end after this round."""
        self.reason = reason


class Callback:
    """Looks on; a leaf overrides what it wants. No call changes a number of the run."""

    def start(self, run: RunStart) -> None:
        """Before the first round of this call."""
        return None

    def round(self, moment: RoundEnd) -> None:
        """After every round."""
        return None

    def end(self, result: Any) -> None:
        """With the finished `Fit`; not called where the run was interrupted."""
        return None


@dataclass(frozen=True)
class WatchedColumn:
    """A column of the rows, and which way is better."""

    column: str
    higher_is_better: bool

    @staticmethod
    def of(
        name: str | None,
        run: RunStart,
        columns: Sequence[str],
    ) -> WatchedColumn:
        """The column that was named; else the first metric on validation or test data, else loss."""
        if name is None:
            name = _usual_column(run, columns)
        if name not in columns:
            raise InputError(unknown("column to watch", name, list(columns)))
        for metric in run.metrics:
            if name.endswith(metric.name):
                return WatchedColumn(name, metric.higher_is_better)
        # losses, and what a cost is: less is better
        return WatchedColumn(name, False)

    def value(self, report: RoundReport) -> float:
        """NaN in rounds that were not evaluated."""
        value = report.to_dict()[self.column]
        return float(value)

    def rank(self, value: float) -> float:
        """Larger is better."""
        if self.higher_is_better:
            return value
        return -value


def callbacks_of(given: Any) -> list[Callback]:
    """Callbacks of a list."""
    if not isinstance(given, Iterable):
        raise InputError(f"callbacks={given!r}: give a list, [{given!r}]")
    return [callback_of(one) for one in given]


def callback_of(given: Any) -> Callback:
    """A callback; a plain function is called with every RoundEnd."""
    if isinstance(given, Callback):
        return given
    # a class can be called, but EarlyStopping without its brackets is a slip
    if isinstance(given, type) or not callable(given):
        raise InputError(f"callback {given!r}: give a Callback, or a function of a RoundEnd")
    return EachRound(given)


@dataclass
class EachRound(Callback):
    """A function that is called after every round."""

    function: Callable[[RoundEnd], None]

    def round(self, moment: RoundEnd) -> None:
        self.function(moment)


def _usual_column(run: RunStart, columns: Sequence[str]) -> str:
    candidates = []
    if run.metrics:
        first = run.metrics[0].name
        candidates = [VALIDATION + first, first]
    for name in candidates:
        if name in columns:
            return name
    return "loss"
