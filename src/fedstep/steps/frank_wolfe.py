"""A step from the dual of a proximal problem."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec, dot, norm_sq
from fedstep.steps.rule import Outcome, Phi, StepRule


@dataclass(frozen=True)
class FrankWolfe(StepRule):
    """The best step on the dual of a proximal problem with a piecewise linear loss.

        eta = step * clip((f - step <g, r>) / (step |g|^2 + eps), 0, 1),  r = weight x

    f is the loss without its regulariser; weight is that of the decoupled decay (the move
    `Decayed`). The formula is exact for a hinge loss of a linear model. For a loss bounded below
    by 0 it is Polyak's step, cut at `step`, when weight is 0 (Berrada et al., 2019).
    """

    step: float = 0.1  # the longest
    weight: float = 0.0  # of the decoupled decay
    eps: float = 1e-5  # in the denominator, as the program has it

    def __post_init__(self) -> None:
        if not self.step > 0:
            raise InputError(
                f"FrankWolfe(step={self.step}): the longest step must be positive; "
                "try a power of 10"
            )
        for name in ("weight", "eps"):
            value = getattr(self, name)
            if not value >= 0:
                raise InputError(f"FrankWolfe({name}={value}): {name} must be 0 or more")

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        above = f - self.step * self.weight * dot(g, x)
        fraction = (above / (self.step * norm_sq(g) + self.eps)).clamp(0, 1)
        # a loss that is not a number says nothing: no step
        fraction = torch.where(torch.isfinite(f), fraction, 0.0)
        return Outcome.free(self.step * fraction), {}
