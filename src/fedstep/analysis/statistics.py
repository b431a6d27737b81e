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
MOST = 20  # seeds: the permutations double with each


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation (NaN of a single value)."""

    mean: float
    std: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        n = len(values)
        if not n:
            return Spread(nan, nan)
        mean = sum(values) / n
        return Spread(
            mean, math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1)) if n > 1 else nan
        )


@dataclass(frozen=True)
class Difference:
    """A mean paired difference, its 95 % t-interval and its sign-flip p-value."""

    mean: float
    low: float
    high: float
    p: float
    pairs: int


def difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference:
    """Ours less theirs over the seeds that both have.

    mean +- t * std / sqrt(n), t the 0.975 quantile with n - 1 degrees of freedom. Beyond 31 seeds the quantile of 30
    degrees is used, which is a little too wide. Hand-made examples: tests/study/test_compare.py.
    """
    gaps = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    gaps = [gap for gap in gaps if not math.isnan(gap)]
    spread, n = Spread.of(gaps), len(gaps)
    half = T975[min(n - 2, len(T975) - 1)] * spread.std / math.sqrt(n) if n > 1 else nan
    return Difference(spread.mean, spread.mean - half, spread.mean + half, sign_flip(gaps), n)


def sign_flip(gaps: Sequence[float]) -> float:
    """The share of the 2^n ways to sign the gaps whose sum is at least as far from 0 as the one seen (two-sided, exact).

    With five seeds no p is below 2 / 32. NaN for more than 20 gaps or none.
    """
    if not 1 <= len(gaps) <= MOST:
        return nan
    sums = [gaps[0]]  # a choice of signs and its opposite are equally far: fix the first
    for gap in gaps[1:]:
        sums = [s + gap for s in sums] + [s - gap for s in sums]
    seen = abs(sum(gaps)) - 1e-9 * sum(map(abs, gaps))  # ties count, whatever rounding does to them
    return sum(abs(s) >= seen for s in sums) / len(sums)
