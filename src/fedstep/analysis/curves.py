"""Curves over the seeds of a method, for pages and figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import median
from typing import TypeVar

from fedstep.analysis.results import Group
from fedstep.analysis.statistics import Spread
from fedstep.analysis.summary import Run

POINTS = 250  # a curve at most
Column = Callable[[Run], list[float]]
T = TypeVar("T")


@dataclass(frozen=True)
class Curve:
    """A line with a band; NaN where a seed has no finite value."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def column(key: str, scale: float = 1.0) -> Column:
    """A column of the rows, scaled."""
    return lambda run: [scale * v for v in run.column(key)]


def rounds(run: Run) -> list[float]:
    """The number of the round."""
    return run.rounds


def gradients(run: Run) -> list[float]:
    """Cost so far in gradient-equivalents."""
    return run.gradients


def megabytes(run: Run) -> list[float]:
    """Traffic so far."""
    return [b / 1e6 for b in run.bytes]


accuracy, last_accuracy = column("accuracy", 100), column("last_accuracy", 100)  # per cent


def mean_band(group: Group, y: Column, x: Column = rounds) -> Curve:
    """Mean over seeds and one sample deviation either side; x too is a mean, as costs differ between seeds."""

    def point(values: Sequence[float]) -> tuple[float, float, float]:
        s = Spread.of(values)
        std = 0.0 if isnan(s.std) and not isnan(s.mean) else s.std
        return s.mean, s.mean - std, s.mean + std

    return _over(group, y, x, point)


def median_range(group: Group, y: Column, x: Column = rounds) -> Curve:
    """Median over seeds between the smallest and the largest: for values that jump, such as eta_g."""
    return _over(
        group,
        y,
        x,
        lambda v: (nan, nan, nan) if any(map(isnan, v)) else (median(v), min(v), max(v)),
    )


def quartiles(group: Group) -> Curve:
    """The accepted client steps: median between the quartiles, each a mean over seeds."""

    def line(place: int) -> Curve:
        return mean_band(group, lambda run: run.quantile(place))

    middle = line(2)
    return Curve(middle.x, middle.y, line(1).y, line(3).y)


def searches(group: Group) -> bool:
    """Whether the clients searched for their steps."""
    return any(t > 0 for run in group.runs for t in run.column("trials"))


def extrapolates(group: Group) -> bool:
    """Whether the server's step changes."""
    return len({v for run in group.runs for v in run.column("eta_g")}) > 1


def averages(group: Group) -> bool:
    """Whether the readout is another point than the last iterate."""
    return any(
        row.get("last_accuracy") is not None and row["last_accuracy"] != row.get("accuracy")
        for run in group.runs
        for row in run.rows
    )


def _over(
    group: Group,
    y: Column,
    x: Column,
    point: Callable[[Sequence[float]], tuple[float, float, float]],
) -> Curve:
    lines = [(x(run), y(run)) for run in group.runs]
    points = []
    for i in range(max(len(xs) for xs, _ in lines)):
        here = [(xs[i], ys[i]) for xs, ys in lines if i < len(xs)]
        if not all(isnan(v) for _, v in here):  # not evaluated
            points.append((Spread.of([a for a, _ in here]).mean, *point([b for _, b in here])))
    columns = tuple(zip(*thin(points), strict=True)) or ((),) * 4
    return Curve(*columns)


def thin(points: Sequence[T], most: int = POINTS) -> list[T]:
    """At most so many points, evenly, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[math.floor(i * (len(points) - 1) / (most - 1) + 0.5)] for i in range(most)]
