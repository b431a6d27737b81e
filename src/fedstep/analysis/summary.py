"""Numbers that sum up a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import nan
from typing import Any


@dataclass(frozen=True)
class Run:
    """A named list of round rows, as written to metrics.jsonl."""

    name: str
    rows: Sequence[Mapping[str, Any]]

    def column(self, key: str) -> list[float]:
        """The values of a column; NaN where there are none, also where a row lacks the column."""
        values = (row.get(key) for row in self.rows)
        return [nan if value is None else float(value) for value in values]

    def quantile(self, place: int) -> list[float]:
        """The minimum (0), a quartile (1, 2, 3) or the maximum (4) of the accepted steps."""
        return [
            nan if row["steps"][place] is None else float(row["steps"][place]) for row in self.rows
        ]

    @property
    def rounds(self) -> list[float]:
        return self.column("round")

    @property
    def gradients(self) -> list[float]:
        """Cost so far in gradient-equivalents: a forward pass alone is a third of forward and backward."""
        each = (
            (f + 2 * b) / 3
            for f, b in zip(self.column("forwards"), self.column("backwards"), strict=True)
        )
        return list(accumulate(each))

    @property
    def bytes(self) -> list[float]:
        """Traffic so far, up and down."""
        return list(
            accumulate(
                a + b
                for a, b in zip(self.column("bytes_up"), self.column("bytes_down"), strict=True)
            )
        )


@dataclass(frozen=True)
class Summary:
    """One line of a comparison. `None` where the run never reached the target."""

    name: str
    accuracy: float  # mean of the last tenth of the evaluated rounds
    best: float
    loss: float  # of the last round that has one
    rounds_to_target: int | None
    gradients_to_target: float | None
    trials: float  # mean a searched step
    failed: int


def summarise(run: Run, target: float) -> Summary:
    """The line of one run; the target is an accuracy."""
    accuracy = run.column("accuracy")
    scored = [a for a in accuracy if not math.isnan(a)]
    tail = scored[-max(1, len(scored) // 10) :]
    losses = [v for v in run.column("loss") if not math.isnan(v)]
    hit = next((i for i, a in enumerate(accuracy) if a >= target), None)
    trials = [t for t in run.column("trials") if t > 0]
    return Summary(
        run.name,
        sum(tail) / len(tail) if tail else nan,
        max(scored, default=nan),
        losses[-1] if losses else nan,
        None if hit is None else int(run.rounds[hit]),
        None if hit is None else run.gradients[hit],
        sum(trials) / len(trials) if trials else 0.0,
        int(sum(run.column("failed"))),
    )


def common_target(runs: Sequence[Run], part: float = 0.95) -> float:
    """An accuracy that the better runs reach: the given part of the best one."""
    best = max(
        (a for run in runs for a in run.column("accuracy") if not math.isnan(a)), default=nan
    )
    return part * best
