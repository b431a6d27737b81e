"""How the slope is learnt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator
from fedstep.core.vec import Scalar, Vec, norm_sq
from fedstep.local.objective import Objective


class Oracle(Protocol):
    """How value and slope are learnt."""

    @property
    def forwards(self) -> int:
        """Forward passes one call costs."""
        ...

    @property
    def backwards(self) -> int: ...

    def __call__(self, phi: Objective, x: Vec) -> tuple[Scalar, Vec]:
        """Value and gradient at x."""
        ...


@dataclass(frozen=True)
class Autograd:
    """Reverse-mode differentiation."""

    forwards: ClassVar[int] = 1
    backwards: ClassVar[int] = 1
    intrinsic: ClassVar[bool] = (
        True  # the gradient belongs to the inner product of the coordinates at hand
    )

    def __call__(self, phi: Objective, x: Vec) -> tuple[Scalar, Vec]:
        return phi.gradient(x)


@dataclass(frozen=True)
class TwoPoint:
    """The slope from values alone: differences along random directions (zeroth order).

        g = dim / (directions * radius) * sum_j (phi(x + radius u_j) - phi(x)) u_j,  u_j uniform on the unit sphere

    It is the gradient of phi averaged over the ball of this radius, up to noise whose square is about dim / directions times
    |grad phi|^2. The directions are keyed by the seed of the local step. No backward pass; 1 + directions forward passes.
    """

    directions: int = 5
    radius: float = 1e-3
    backwards: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if self.directions < 1:
            raise InputError(
                f"TwoPoint(directions={self.directions}): at least one direction is needed"
            )
        if not self.radius > 0:
            raise InputError(
                f"TwoPoint(radius={self.radius}): the radius must be positive; the FedZO program uses 0.001"
            )

    @property
    def forwards(self) -> int:
        return 1 + self.directions

    def __call__(self, phi: Objective, x: Vec) -> tuple[Scalar, Vec]:
        with torch.no_grad():
            units = self.units(phi.batch.seed, x)
            f, aside = (
                phi(x),
                Objective(phi.ctx, phi.batch, phi.terms),
            )  # phi itself keeps the model's output at x
            values = [aside(x + self.radius * units[..., j, :]) for j in range(self.directions)]
            rises = torch.stack([value - f for value in values], -1)
            return f, x.shape[-1] / (self.directions * self.radius) * (
                rises.unsqueeze(-1) * units
            ).sum(-2)

    def units(self, seed: Tensor, x: Vec) -> Tensor:
        """Directions of shape (..., directions, dim), one set per client."""
        shape = (self.directions, x.shape[-1])
        # drawn in float64, so that the directions do not depend on the model's precision
        each = [
            torch.randn(shape, generator=generator(int(s), "directions"), dtype=torch.float64)
            for s in seed.reshape(-1)
        ]
        drawn = torch.stack(each).reshape(*x.shape[:-1], *shape)
        return (drawn / norm_sq(drawn).sqrt().unsqueeze(-1)).to(x)
