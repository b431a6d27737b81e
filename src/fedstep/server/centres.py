"""Guards that need every delta: medians and Krum are not sums.

They close the way to secure aggregation, and a round keeps the deltas of its whole cohort. Where
lengths are all that can be wrong, `NormLimit` is enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, State, Vec, norm_sq
from fedstep.server.guards import Checked, Guard, GuardedSum


class Centre(ABC):
    """One vector for many, `(C, d)` -> `(d,)`, that a few of them cannot move far."""

    @abstractmethod
    def __call__(self, deltas: Tensor) -> Vec:
        """The centre of the deltas; every client counts the same."""


@dataclass(frozen=True)
class CoordinateMedian(Centre):
    """The median of every coordinate (Yin et al., 2018); of two in the middle the mean."""

    def __call__(self, deltas: Tensor) -> Vec:
        ordered = deltas.sort(0).values
        lower = ordered[(len(deltas) - 1) // 2]
        upper = ordered[len(deltas) // 2]
        return (lower + upper) / 2


@dataclass(frozen=True)
class TrimmedMean(Centre):
    """The mean of every coordinate without its largest and smallest values (Yin et al., 2018).

    share: of the clients at either end, rounded up.
    """

    share: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.share < 0.5:
            raise InputError(f"TrimmedMean(share={self.share}): it must lie in [0, 0.5); try 0.2")

    def __call__(self, deltas: Tensor) -> Vec:
        clients = len(deltas)
        # rounding up must leave somebody in the middle
        ends = min(-int(-self.share * clients // 1), (clients - 1) // 2)
        return deltas.sort(0).values[ends : clients - ends].mean(0)


@dataclass(frozen=True)
class GeometricMedian(Centre):
    """The point with the least sum of distances to the deltas (Pillutla et al., 2022).

        z <- sum_i delta_i / max(eps, |delta_i - z|) / sum_i 1 / max(eps, |delta_i - z|)

    Weiszfeld's steps from the coordinate-wise median; eps is relative to the median distance.
    """

    steps: int = 16
    eps: float = 1e-6

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InputError(f"GeometricMedian(steps={self.steps}): give at least 1")
        if not self.eps > 0:
            raise InputError(f"GeometricMedian(eps={self.eps}): it must be positive; try 1e-6")

    def __call__(self, deltas: Tensor) -> Vec:
        centre = CoordinateMedian()(deltas)
        for _ in range(self.steps):
            distances = norm_sq(deltas - centre).sqrt()
            scale = distances.median()
            # all in one point: nothing to divide by, and nothing to do
            if not bool(scale > 0):
                return centre
            closeness = scale / distances.clamp(min=float(self.eps * scale))
            shares = closeness / closeness.sum()
            centre = shares @ deltas
        return centre


@dataclass(frozen=True)
class Krum(Centre):
    """The delta that lies nearest to its neighbours (Blanchard et al., 2017).

        argmin_i sum of |delta_i - delta_j|^2 over the C - hostile - 2 nearest j;  mean of the best

    hostile: how many clients may be. keep: how many of the best are averaged (1: Krum itself).
    """

    hostile: int = 1
    keep: int = 1

    def __post_init__(self) -> None:
        if self.hostile < 0:
            raise InputError(f"Krum(hostile={self.hostile}): give 0 or more clients")
        if self.keep < 1:
            raise InputError(f"Krum(keep={self.keep}): give at least 1 client")

    def __call__(self, deltas: Tensor) -> Vec:
        clients = len(deltas)
        neighbours = max(1, clients - self.hostile - 2)
        # in double precision: distances are differences of large squares where somebody is far off
        squares = torch.cdist(deltas.double(), deltas.double()).square()
        # the nearest is the client itself, at distance 0
        nearest = squares.sort(1).values[:, 1 : 1 + neighbours]
        best = nearest.sum(1).argsort(stable=True)[: self.keep]
        return deltas[best].mean(0)


@dataclass(frozen=True)
class ByList(Guard):
    """The centre of the list of deltas in the place of their mean.

        delta = centre of (delta_1, ..., delta_C),  every client counting the same

    Extrapolation compares with the median of |delta_i|^2 instead of the mean. What clients send
    besides (control variates, steps) is averaged as ever. A cohort of fewer than `few` clients is
    left alone: nobody can tell who is the odd one there.
    """

    centre: Centre = CoordinateMedian()
    few: int = 3

    def __post_init__(self) -> None:
        check_slots(self, centre=Centre)
        if self.few < 3:
            raise InputError(f"ByList(few={self.few}): of two, none is the outlier; give 3 or more")

    def init(self, x: Vec) -> NewState:
        return {}

    def check(self, delta: Vec, weight: Tensor, state: State) -> Checked:
        nobody = torch.zeros(delta.shape[:-1], dtype=torch.bool, device=delta.device)
        return Checked(delta, nobody, listed=True)

    def settle(self, agg: Aggregate, state: State) -> GuardedSum:
        if agg.clients < self.few:
            return GuardedSum(replace(agg, deltas=()), state)
        deltas = torch.cat(agg.deltas)
        squares = norm_sq(deltas)
        mended = replace(
            agg,
            delta=agg.weight * self.centre(deltas),
            norm_sq=agg.weight * squares.median(),
            deltas=(),
        )
        return GuardedSum(mended, state)
