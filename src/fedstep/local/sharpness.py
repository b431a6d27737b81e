"""The gradient a little uphill: sharpness-aware minimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar, Vec, norm_sq, scale
from fedstep.local.objective import Objective
from fedstep.local.oracles import Oracle

TINY = 1e-7  # as the programs add it to the gradient's norm


@dataclass(frozen=True)
class Sharpness(Oracle):
    """Value at x, slope a distance rho uphill (SAM; Foret et al., 2021).

        g(x) = grad f(x + rho grad f(x) / |grad f(x)|) + gradient of the terms at x

    f is the client's loss on the batch at hand; only f is looked up uphill, so that a proximal
    term or a server's momentum keeps its own gradient, as the federated programs have it. A line
    search compares values at x with this slope, which is not f's: it is a rule of thumb there.
    Two gradients a step; with terms a third, which tells f's part from the terms' part.
    """

    rho: float = 0.1
    forwards: ClassVar[int] = 2
    backwards: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not self.rho >= 0:
            raise InputError(f"Sharpness(rho={self.rho}): the distance must be 0 or more; try 0.1")

    def __call__(self, phi: Objective, x: Vec) -> tuple[Scalar, Vec]:
        value, gradient = phi.gradient(x)
        # an objective of its own: phi must keep the model's output at x for whoever asks later
        loss_alone = Objective(phi.ctx, phi.batch)
        uphill = gradient
        if phi.terms:
            _, uphill = loss_alone.gradient(x)
            phi.work.add(value.numel(), 1, 1)
        from_terms = gradient - uphill
        # along the gradient of the loss alone, so that terms do not decide which way is uphill
        distance = self.rho / (norm_sq(uphill).sqrt() + TINY)
        _, gradient_uphill = loss_alone.gradient(x + scale(distance, uphill))
        return value, gradient_uphill + from_terms
