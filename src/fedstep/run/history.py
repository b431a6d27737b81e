"""The rounds of a run, column by column, and the score that tuning and comparisons take of it.

No torch here: results are read, compared and drawn without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import nan
from typing import Any

from fedstep.run.columns import ACCURACY, MetricInfo


@dataclass(frozen=True)
class Run:
    """A named list of round rows, as its journal has them."""

    name: str
    rows: Sequence[Mapping[str, Any]]  # round by round
    metrics: tuple[MetricInfo, ...] = (ACCURACY,)  # the first is the one to compare by

    @property
    def metric(self) -> MetricInfo:
        """What the run is compared by; a run that measured nothing has gaps in its accuracy."""
        if not self.metrics:
            return ACCURACY
        return self.metrics[0]

    def column(self, key: str) -> list[float]:
        """The values of a column; NaN where there are none, also where a row lacks the column."""
        return [_number(row.get(key)) for row in self.rows]

    def evaluated(self, key: str) -> list[float]:
        """The values of a column that there are."""
        return [value for value in self.column(key) if not math.isnan(value)]

    def final(self, key: str) -> float:
        """The mean of the last tenth of the evaluated rounds, at least one; NaN without any.

        One evaluation would be noise: the iterates of extrapolated methods swing.
        """
        values = self.evaluated(key)
        if not values:
            return nan
        count = max(1, len(values) // 10)
        tail = values[-count:]
        return sum(tail) / len(tail)

    def quantile(self, place: int) -> list[float]:
        """The minimum (0), a quartile (1, 2, 3) or the maximum (4) of the accepted steps."""
        return [_number(row["steps"][place]) for row in self.rows]

    @property
    def rounds(self) -> list[float]:
        """The numbers of the rounds."""
        return self.column("round")

    @property
    def gradients(self) -> list[float]:
        """Cost so far in gradient-equivalents: a forward pass alone is a third of forward and
        backward.
        """
        forwards = self.column("forwards")
        backwards = self.column("backwards")
        costs = []
        for forward, backward in zip(forwards, backwards, strict=True):
            costs.append((forward + 2 * backward) / 3)
        return list(accumulate(costs))

    @property
    def bytes(self) -> list[float]:
        """Traffic so far, up and down."""
        up = self.column("bytes_up")
        down = self.column("bytes_down")
        traffic = []
        for bytes_up, bytes_down in zip(up, down, strict=True):
            traffic.append(bytes_up + bytes_down)
        return list(accumulate(traffic))


def _number(value: Any) -> float:
    if value is None:  # how JSON holds NaN
        return nan
    return float(value)
