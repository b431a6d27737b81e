"""A chart before it is drawn: what its lines are, and the table of numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedstep.analysis.csv_text import csv_text
from fedstep.report.style import LineStyle

DIGITS = 5  # significant, in the numbers that can be downloaded


@dataclass(frozen=True)
class Series:
    """One line: points and an optional band (low, high); or the points alone, as dots.

    A faint line accompanies another one of the same style, such as the last iterate beside the readout.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    style: LineStyle
    band: tuple[Sequence[float], Sequence[float]] | None = None
    faint: bool = False
    dots: bool = False

    @property
    def drawable(self) -> bool:
        """Whether there is a number to draw."""
        return any(not math.isnan(v) for v in self.y)


@dataclass(frozen=True)
class Chart:
    """Lines over one pair of axes.

    The y axis holds what each line does after the part `settled` of its points; what lies outside is cut off. `keys` names
    the lines below the chart, for charts whose lines are not those of the page's legend.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    note: str = ""
    keys: bool = False
    settled: float = 0.0

    @property
    def drawable(self) -> bool:
        """Whether one of the lines has a number."""
        return any(line.drawable for line in self.series)

    def csv(self) -> str:
        """A row for every point: the line's name, x, y and the ends of the band."""
        heads = ["line", self.x_label, self.y_label]
        banded = any(line.band for line in self.series)
        if banded:
            heads += ["low", "high"]
        rows = [row[: len(heads)] for line in self.series for row in _rows(line)]
        return csv_text(heads, rows)


def _rows(line: Series) -> list[list[str]]:
    gaps = [math.nan] * len(line.y)
    low, high = line.band or (gaps, gaps)
    name = line.name
    if line.faint:
        name += " (last iterate)"
    points = zip(line.x, line.y, low, high, strict=True)
    return [[name, *map(_cell, point)] for point in points]


def _cell(value: float) -> str:
    """Empty where nothing was measured."""
    if math.isnan(value):
        return ""
    return f"{value:.{DIGITS}g}"
