"""A smooth cap on Polyak's step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec
from fedstep.steps.rule import Outcome, Phi, StepRule


@dataclass(frozen=True)
class HarmonicPolyak(StepRule):
    """Half the harmonic mean of a cap and of twice Polyak's step (NGN; Orvieto and Xiao, 2024).

        eta = cap / (1 + cap |<g, d>| / (2 f(x)))

    <g, d> is -|g|^2 for steepest descent. The step is below the cap and below 2 f / |g|^2, and
    close to the smaller of the two where they differ much. Needs a loss that is never negative:
    no step is taken where f is not positive or not finite. No trials.
    """

    cap: float = 1.0  # no step is as long
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.cap > 0:
            raise InputError(f"HarmonicPolyak(cap={self.cap}): the cap must be positive; try 1")

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        slope = phi.slope(g, d)
        usable = torch.isfinite(f) & torch.isfinite(slope) & (f > 0)
        # a loss of zero would divide by zero in the rows that are masked out afterwards
        positive_loss = torch.where(usable, f, torch.ones_like(f))
        step = self.cap / (1 + self.cap * slope.abs() / (2 * positive_loss))
        return Outcome.free(
            torch.where(
                usable,
                step,
                torch.zeros_like(step),
            )
        ), {}
