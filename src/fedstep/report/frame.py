"""The frame of a drawing, its axes, and places in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedstep.report.axis import Axis


@dataclass(frozen=True)
class Point:
    """A place in pixels; NaN where a value cannot be shown."""

    x: float
    y: float

    @property
    def shown(self) -> bool:
        return not (math.isnan(self.x) or math.isnan(self.y))

    def __str__(self) -> str:
        return f"{self.x:.1f} {self.y:.1f}"


@dataclass(frozen=True)
class Frame:
    """The size of a drawing and of the margins around its plot, in pixels."""

    width: int = 560
    height: int = 330
    left: int = 58  # numbers of seven letters, and the name of the axis
    right: int = 14  # half of the last number below the axis
    top: int = 12  # half a letter, for the uppermost tick
    bottom: int = 44  # numbers, and the name of the axis below them

    @property
    def plot_right(self) -> int:
        return self.width - self.right

    @property
    def plot_bottom(self) -> int:
        return self.height - self.bottom


@dataclass(frozen=True)
class Axes:
    """Both axes of a drawing."""

    x: Axis
    y: Axis

    def points(self, x: Sequence[float], y: Sequence[float]) -> list[Point]:
        """The places of values."""
        pairs = zip(x, y, strict=True)
        return [Point(self.x.at(a), self.y.at(b)) for a, b in pairs]
