"""Clients of unequal size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedstep.data.partition.base import check_count, check_positive, column, random, share
from fedstep.data.parts import Parts


class WeightLaw(Protocol):
    """Positive weights of clients."""

    def __call__(
        self,
        clients: int,
        rng: np.random.Generator,
    ) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class LogNormal:
    """w = exp(sigma z), z ~ N(0, 1)."""

    sigma: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self, "sigma", self.sigma)

    def __call__(
        self,
        clients: int,
        rng: np.random.Generator,
    ) -> NDArray[np.float64]:
        logs: NDArray[np.float64] = self.sigma * rng.standard_normal(clients)
        return _relative(logs)


@dataclass(frozen=True)
class Power:
    """P(w > t) = t^-exponent for t >= 1.

    Few clients hold most of the samples when the exponent is near 1.
    """

    exponent: float = 1.5

    def __post_init__(self) -> None:
        check_positive(self, "exponent", self.exponent)

    def __call__(
        self,
        clients: int,
        rng: np.random.Generator,
    ) -> NDArray[np.float64]:
        logs: NDArray[np.float64] = rng.standard_exponential(clients) / self.exponent
        return _relative(logs)


@dataclass(frozen=True)
class SizeLaw:
    """Samples in random order, cut into clients of unequal size.

    |part_i| = 1 + (N - clients) w_i / sum w, rounded
    """

    clients: int
    law: WeightLaw = LogNormal()

    def __post_init__(self) -> None:
        check_count(self, "clients", self.clients)

    def __call__(
        self,
        labels: ArrayLike,
        seed: int = 0,
    ) -> Parts:
        total = len(column(labels))
        # only for its check: everybody gets one sample at least
        share(self, self.clients, total)
        rng = random(seed, "sizes")
        weights = self.law(self.clients, rng)
        shares = np.cumsum(weights)[:-1] / weights.sum()
        # sums are rounded, not sizes: so the sizes add up to N; the 1 is added behind the rounding
        ends = np.rint(shares * (total - self.clients)).astype(np.int64)
        ends += np.arange(1, self.clients)
        return Parts.of(np.split(rng.permutation(total), ends))


def _relative(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    # only ratios matter, and these cannot overflow
    weights: NDArray[np.float64] = np.exp(logs - logs.max())
    return weights
