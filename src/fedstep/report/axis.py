"""The axes of a chart: from values to pixels, and the round values at which they are marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEW = 3  # marks below which a logarithmic axis is marked like a linear one
ROUND_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)  # from mark to mark, times a power of ten


@dataclass(frozen=True)
class Axis:
    """A scale from values to pixels, with its ticks."""

    low: float  # the smallest value
    high: float
    first: float  # the pixel of low; larger than last where the axis points up
    last: float
    log: bool
    whole: bool = False  # of counts: 1.5 clients are no mark

    @staticmethod
    def over(
        values: Sequence[float],
        first: float,
        last: float,
        log: bool,
    ) -> Axis:
        """A scale that holds all finite (for a logarithm: positive) values."""
        drawable = [value for value in values if math.isfinite(value)]
        if log:
            drawable = [value for value in drawable if value > 0]
        if not drawable:
            # An axis that nothing can be drawn on still needs two ends.
            drawable = [0.1, 1.0]
        whole = not log and all(value.is_integer() for value in map(float, drawable))
        low, high = _with_room(min(drawable), max(drawable), log)
        return Axis(
            low=low,
            high=high,
            first=first,
            last=last,
            log=log,
            whole=whole,
        )

    def at(self, value: float) -> float:
        """The pixel of a value; NaN where it has none."""
        if not math.isfinite(value):
            return math.nan
        if self.log and value <= 0:
            return math.nan
        # Where the value lies between the ends, from 0 to 1.
        if self.log:
            decades = math.log(self.high / self.low)
            part = math.log(value / self.low) / decades
        else:
            part = (value - self.low) / (self.high - self.low)
        length = self.last - self.first
        return self.first + part * length

    def ticks(self) -> list[float]:
        """About five round values."""
        # The ends of the axis are those of the data, seldom round, and stay unmarked.
        linear = _linear_ticks(self.low, self.high)
        marks = self._inside(linear)
        if self.whole:
            return [mark for mark in marks if mark.is_integer()]
        if not self.log:
            return marks
        logarithmic = _log_ticks(self.low, self.high)
        powers = self._inside(logarithmic)
        # Within less than a decade the powers of ten leave the axis almost bare.
        if len(powers) < FEW:
            return marks
        return powers

    def _inside(self, marks: Sequence[float]) -> list[float]:
        # A mark at the very end may lie outside by its rounding.
        least = self.low * (1 - 1e-9) - 1e-12
        most = self.high * (1 + 1e-9) + 1e-12
        return [mark for mark in marks if least <= mark <= most]


def tick_text(value: float) -> str:
    """A short form for ticks."""
    size = abs(value)
    # Before the small numbers, among which it would be 0e0.
    if value == 0:
        return "0"
    if 1e4 <= size < 1e7:
        return f"{value:,.0f}"
    if size >= 1e7 or size < 1e-3:
        # Python writes 1.0e-05: the zeros say nothing.
        written = f"{value:.1e}"
        mantissa, exponent = written.split("e")
        head = mantissa.removesuffix(".0")
        return f"{head}e{int(exponent)}"
    return f"{value:.4g}"


def _with_room(low: float, high: float, log: bool) -> tuple[float, float]:
    """The ends, moved apart where a line between them would show nothing but rounding."""
    if log:
        # A logarithm has ratios, not distances.
        if high > 1.5 * low:
            return low, high
        return low / 1.5, high * 1.5
    rounding = 1e-12 * max(1.0, abs(high))
    if high - low < rounding:
        return low - 0.5, high + 0.5
    return low, high


def _linear_ticks(low: float, high: float) -> list[float]:
    wanted = (high - low) / 5
    exponent = math.floor(math.log10(wanted))
    unit = 10.0**exponent
    steps = [multiple * unit for multiple in ROUND_STEPS]
    # A little less will do: a step that is exactly right must not fail by its rounding.
    enough = wanted * 0.999
    step = next(step for step in steps if step >= enough)
    first = math.ceil(low / step)
    last = math.floor(high / step)
    # Multiples, not sums: sums would gather rounding from mark to mark.
    return [k * step for k in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    first = math.floor(math.log10(low))
    last = math.ceil(math.log10(high))
    decades = last - first
    factors: tuple[float, ...] = (1.0,)
    # Two decades have room for marks between the powers.
    if decades <= 2:
        factors = (1.0, 2.0, 5.0)
    # Twelve decades with a mark each would write over each other.
    every = max(1, round(decades / 6))
    marks = []
    for exponent in range(first, last + 1, every):
        for factor in factors:
            marks.append(factor * 10.0**exponent)
    return marks
