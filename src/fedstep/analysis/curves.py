"""Curves over the seeds of a method, for pages and figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import median
from typing import TypeAlias, TypeVar

from fedstep.analysis.group import Group
from fedstep.analysis.statistics import Spread
from fedstep.run.columns import LAST, MetricInfo
from fedstep.run.history import Run

POINTS = 250  # a curve at most
Column: TypeAlias = Callable[[Run], list[float]]
T = TypeVar("T")


@dataclass(frozen=True)
class Curve:
    """A line with a band; NaN where a seed has no finite value."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]  # lower end of the band
    high: tuple[float, ...]  # upper end


@dataclass(frozen=True)
class Banded:
    """A value over seeds and the ends of its band."""

    middle: float
    low: float
    high: float


def run_column(key: str, scale: float = 1.0) -> Column:
    """A column of the rows, scaled."""

    def values(run: Run) -> list[float]:
        return [scale * value for value in run.column(key)]

    return values


def metric_column(metric: MetricInfo, prefix: str = "") -> Column:
    """A metric as it is drawn: shares in per cent.

    The prefix `LAST` takes it at the last iterate.
    """
    if metric.percent:
        return run_column(prefix + metric.name, 100)
    return run_column(prefix + metric.name)


def by_round(run: Run) -> list[float]:
    """The number of the round."""
    return run.rounds


def by_gradients(run: Run) -> list[float]:
    """Cost so far in gradient-equivalents."""
    return run.gradients


def by_megabytes(run: Run) -> list[float]:
    """Traffic so far."""
    return [size / 1e6 for size in run.bytes]


def mean_band(
    group: Group,
    y: Column,
    x: Column = by_round,
) -> Curve:
    """Mean over seeds and one sample deviation either side.

    The x of a point too is a mean, as costs differ between seeds.
    """
    return _over_seeds(
        group,
        y,
        x,
        _mean_and_deviation,
    )


def median_range(
    group: Group,
    y: Column,
    x: Column = by_round,
) -> Curve:
    """Median over seeds between the smallest and the largest: for values that jump, such as
    eta_g.
    """
    return _over_seeds(
        group,
        y,
        x,
        _median_and_ends,
    )


def quartiles(group: Group) -> Curve:
    """The accepted client steps: median between the quartiles, each a mean over seeds."""

    def line(place: int) -> Curve:
        return mean_band(group, lambda run: run.quantile(place))

    # places among the five quantiles that a row holds
    middle = line(2)
    return Curve(
        x=middle.x,
        y=middle.y,
        low=line(1).y,
        high=line(3).y,
    )


def searches(group: Group) -> bool:
    """Whether the clients searched for their steps."""
    trials: list[float] = []
    for run in group.runs:
        trials += run.column("trials")
    return any(count > 0 for count in trials)


def extrapolates(group: Group) -> bool:
    """Whether the server's step changes."""
    # seen in the numbers, not read from the name: a rule may be capped at one step
    steps: set[float] = set()
    for run in group.runs:
        steps.update(run.column("eta_g"))
    return len(steps) > 1


def averages(group: Group, metric: MetricInfo) -> bool:
    """Whether the readout is another point than the last iterate."""
    for run in group.runs:
        for row in run.rows:
            last = row.get(LAST + metric.name)
            shown = row.get(metric.name)
            if last is not None and last != shown:
                return True
    return False


def thin(points: Sequence[T], most: int = POINTS) -> list[T]:
    """At most so many points, evenly, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    spacing = (len(points) - 1) / (most - 1)
    some = []
    for i in range(most):
        # not `round`, which goes to the even neighbour and would space points unevenly
        place = math.floor(i * spacing + 0.5)
        some.append(points[place])
    return some


def _mean_and_deviation(values: Sequence[float]) -> Banded:
    spread = Spread.of(values)
    deviation = spread.std
    # one seed has a mean and no deviation: its line is drawn, its band has no width
    if isnan(deviation) and not isnan(spread.mean):
        deviation = 0.0
    return Banded(
        spread.mean,
        spread.mean - deviation,
        spread.mean + deviation,
    )


def _median_and_ends(values: Sequence[float]) -> Banded:
    # a seed that diverged makes a gap: the median of the others would hide it
    if any(map(isnan, values)):
        return Banded(nan, nan, nan)
    return Banded(
        middle=median(values),
        low=min(values),
        high=max(values),
    )


def _over_seeds(
    group: Group,
    y: Column,
    x: Column,
    combine: Callable[[Sequence[float]], Banded],
) -> Curve:
    """Round by round over the runs that got so far; rounds that were not evaluated are left out."""
    xs = [x(run) for run in group.runs]
    ys = [y(run) for run in group.runs]
    places: list[float] = []
    bands: list[Banded] = []
    longest = max(len(line) for line in xs)
    for i in range(longest):
        y_here = [line[i] for line in ys if i < len(line)]
        # not evaluated in this round; a round in which one seed diverged stays, as a gap
        if all(map(isnan, y_here)):
            continue
        x_here = [line[i] for line in xs if i < len(line)]
        places.append(Spread.of(x_here).mean)
        bands.append(combine(y_here))
    # both by the same rule, so that they stay together
    places = thin(places)
    bands = thin(bands)
    return Curve(
        x=tuple(places),
        y=tuple(band.middle for band in bands),
        low=tuple(band.low for band in bands),
        high=tuple(band.high for band in bands),
    )
