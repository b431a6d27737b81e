"""A run that ends when nothing is gained any more."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedstep.callbacks.base import Callback, RoundEnd, RunStart, WatchedColumn, hidden
from fedstep.core.errors import InputError
from fedstep.run.record import RoundReport


@dataclass
class EarlyStopping(Callback):
    """Stop when a column has not become better by `least` in `patience` evaluated rounds.

    column: such as "validation_accuracy" or "loss"; None: the first metric on validation data, else
    on test data, else the training loss. It sees the rows of earlier calls too, so a run that was
    interrupted stops in the same round as one that was not.
    """

    patience: int = 10
    column: str | None = None
    least: float = 0.0
    _start: RunStart | None = hidden()
    _watched: WatchedColumn | None = hidden()
    _best: float = hidden(-math.inf)
    _waited: int = hidden(0)

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise InputError(f"EarlyStopping(patience={self.patience}): give at least 1")

    def start(self, run: RunStart) -> None:
        self._start = run
        # a callback may serve several runs: nothing of an earlier one is left
        self._watched = None
        self._best = -math.inf
        self._waited = 0
        # an interrupted run has to stop where one that was not would have stopped
        for row in run.earlier:
            self._see(row)

    def round(self, moment: RoundEnd) -> None:
        self._see(moment.report)
        if self._waited >= self.patience and self._watched is not None:
            moment.stop(
                f"{self._watched.column} has not become better in {self.patience} evaluated rounds"
            )

    def _see(self, row: RoundReport) -> None:
        assert self._start is not None
        if self._watched is None:
            self._watched = WatchedColumn.of(self.column, self._start, list(row.to_dict()))
        value = self._watched.value(row)
        # not evaluated: neither better nor worse
        if math.isnan(value):
            return
        rank = self._watched.rank(value)
        if rank > self._best + self.least:
            self._best = rank
            self._waited = 0
        else:
            self._waited += 1
