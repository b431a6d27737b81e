"""A chart before it is drawn: what its lines are, and the table of numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedstep.analysis.csv_text import csv_text
from fedstep.report.style import LineStyle

DIGITS = 5  # significant, in the numbers that can be downloaded


@dataclass(frozen=True)
class Band:
    """The area around a line, between two others."""

    low: Sequence[float]  # at the x of the line
    high: Sequence[float]


@dataclass(frozen=True)
class Series:
    """One line: points and an optional band; or the points alone, as dots.

    A faint line accompanies another one of the same style, such as the last iterate beside the
    point that is read out.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]  # NaN where nothing was measured
    style: LineStyle
    band: Band | None = None
    faint: bool = False  # thin, without markers and without a name at its end
    dots: bool = False

    @property
    def drawable(self) -> bool:
        """Whether there is a number to draw."""
        return any(not math.isnan(v) for v in self.y)

    @property
    def heights(self) -> list[Sequence[float]]:
        """All that the y axis has to hold."""
        if self.band is None:
            return [self.y]
        return [self.y, self.band.low, self.band.high]


@dataclass(frozen=True)
class Chart:
    """Lines over one pair of axes.

    The y axis holds what each line does after the part `settled` of its points; what lies outside
    is cut off. `keys` names the lines below the chart, for charts whose lines are not those of the
    page's legend.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    note: str = ""  # below the chart: what its lines and bands are
    keys: bool = False
    settled: float = 0.0  # share of the points

    @property
    def drawable(self) -> bool:
        """Whether one of the lines has a number."""
        return any(line.drawable for line in self.series)

    def csv(self) -> str:
        """A row for every point: the line's name, x, y and the ends of the band."""
        heads = ["line", self.x_label, self.y_label]
        # Charts without any band do not carry two empty columns.
        if any(line.band for line in self.series):
            heads += ["low", "high"]
        rows = []
        for line in self.series:
            for row in _rows(line):
                rows.append(row[: len(heads)])
        return csv_text(heads, rows)


def _rows(line: Series) -> list[list[str]]:
    nothing = [math.nan] * len(line.y)
    band = line.band or Band(nothing, nothing)
    name = line.name
    # Two lines of one name would be one line to whoever reads the file.
    if line.faint:
        name += " (last iterate)"
    rows = []
    for point in zip(line.x, line.y, band.low, band.high, strict=True):
        numbers = [_cell(value) for value in point]
        rows.append([name, *numbers])
    return rows


def _cell(value: float) -> str:
    """Empty where nothing was measured."""
    if math.isnan(value):
        return ""
    return f"{value:.{DIGITS}g}"
