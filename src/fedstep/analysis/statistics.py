"""How sure a few seeds make us: spreads and paired differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan

# Quantile 0.975 of Student's t with 1, 2, ..., 30 degrees of freedom (the standard table)
T975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
MOST_SEEDS = 20  # seeds: the permutations double with each


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation (NaN of a single value)."""

    mean: float
    std: float  # divided by n - 1

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        n = len(values)
        if n == 0:
            return Spread(nan, nan)
        mean = sum(values) / n
        if n == 1:
            return Spread(mean, nan)
        squares = sum((v - mean) ** 2 for v in values)
        variance = squares / (n - 1)
        return Spread(mean, math.sqrt(variance))


@dataclass(frozen=True)
class Difference:
    """A mean paired difference, its 95 % t-interval and its sign-flip p-value."""

    mean: float
    low: float  # end of the interval
    high: float
    p: float  # two-sided
    pairs: int  # seeds that both methods have


def difference(
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
) -> Difference:
    """Ours less theirs over the seeds that both have.

    mean +- t * std / sqrt(n), t the 0.975 quantile with n - 1 degrees of freedom. Beyond 31 seeds
    the quantile of 30 degrees is used, which is a little too wide. Hand-made examples:
    tests/study/test_compare.py.
    """
    gaps = []
    for seed in ours:
        if seed not in theirs:
            continue
        gap = ours[seed] - theirs[seed]
        # of two infinite scores there is no difference
        if not math.isnan(gap):
            gaps.append(gap)
    spread = Spread.of(gaps)
    half = _half_width(spread, len(gaps))
    return Difference(
        mean=spread.mean,
        low=spread.mean - half,
        high=spread.mean + half,
        p=sign_flip(gaps),
        pairs=len(gaps),
    )


def _half_width(spread: Spread, n: int) -> float:
    """Half the 95 % interval of a mean of n values; unknown of fewer than two."""
    if n < 2:
        return nan
    # n - 1 degrees of freedom, counted from 1
    place = min(n - 2, len(T975) - 1)
    quantile = T975[place]
    return quantile * spread.std / math.sqrt(n)


def sign_flip(gaps: Sequence[float]) -> float:
    """The share of the 2^n ways to sign the gaps whose sum is at least as far from 0 as theirs.

    Two-sided and exact.
    With five seeds no p is below 2 / 32. NaN for more than 20 gaps or none.
    """
    if not 1 <= len(gaps) <= MOST_SEEDS:
        return nan
    # a choice of signs and its opposite are equally far: fix the first
    sums = [gaps[0]]
    for gap in gaps[1:]:
        added = [total + gap for total in sums]
        taken = [total - gap for total in sums]
        sums = added + taken
    # ties count, whatever rounding does to them
    rounding = 1e-9 * sum(map(abs, gaps))
    observed = abs(sum(gaps)) - rounding
    as_far = sum(abs(total) >= observed for total in sums)
    return as_far / len(sums)
