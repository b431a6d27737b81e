"""How the slope is learnt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator
from fedstep.core.vec import Scalar, Vec, norm_sq
from fedstep.local.objective import Objective


class Oracle(ABC):
    """How value and slope are learnt."""

    # the gradient belongs to the inner product of the coordinates at hand
    intrinsic: ClassVar[bool] = False

    @property
    @abstractmethod
    def forwards(self) -> int:
        """Forward passes one call costs."""

    @property
    @abstractmethod
    def backwards(self) -> int:
        """Backward passes one call costs."""

    @abstractmethod
    def __call__(self, phi: Objective, x: Vec) -> tuple[Scalar, Vec]:
        """Value and gradient at x."""


@dataclass(frozen=True)
class Autograd(Oracle):
    """Reverse-mode differentiation."""

    intrinsic: ClassVar[bool] = True

    @property
    def forwards(self) -> int:
        return 1

    @property
    def backwards(self) -> int:
        return 1

    def __call__(self, phi: Objective, x: Vec) -> tuple[Scalar, Vec]:
        return phi.gradient(x)


@dataclass(frozen=True)
class TwoPoint(Oracle):
    """The slope from values alone: differences along random directions (zeroth order).

        g = dim / (directions * radius) * sum_j (phi(x + radius u_j) - phi(x)) u_j

    u_j is uniform on the unit sphere. g is the gradient of phi averaged over the ball of this
    radius, up to noise whose square is about dim / directions times |grad phi|^2. The directions
    are keyed by the seed of the local step. No backward pass; 1 + directions forward passes.
    """

    directions: int = 5  # the noise falls with their number, the cost grows with it
    radius: float = 1e-3  # the FedZO program's; in float32 smaller ones drown in rounding

    def __post_init__(self) -> None:
        if self.directions < 1:
            raise InputError(
                f"TwoPoint(directions={self.directions}): at least one direction is needed"
            )
        if not self.radius > 0:
            raise InputError(
                f"TwoPoint(radius={self.radius}): the radius must be positive; "
                "the FedZO program uses 0.001"
            )

    @property
    def forwards(self) -> int:
        return 1 + self.directions

    @property
    def backwards(self) -> int:
        return 0

    @torch.no_grad()
    def __call__(self, phi: Objective, x: Vec) -> tuple[Scalar, Vec]:
        units = self.units(phi.batch.seed, x)
        f = phi(x)
        # another objective for the other points: phi itself keeps the model's output at x
        aside = Objective(phi.ctx, phi.batch, phi.terms)
        rises = []
        for j in range(self.directions):
            rises.append(aside(x + self.radius * units[..., j, :]) - f)
        weighted = torch.stack(rises, -1).unsqueeze(-1) * units
        # dim: a random direction sees only 1 / dim of |grad phi|^2 on average
        factor = x.shape[-1] / (self.directions * self.radius)
        return f, factor * weighted.sum(-2)

    def units(self, seed: Tensor, x: Vec) -> Tensor:
        """Directions of shape (..., directions, dim), one set per client."""
        shape = (self.directions, x.shape[-1])
        each = []
        for client_seed in seed.reshape(-1):
            draw = generator(int(client_seed), "directions")
            # in float64, so that the directions do not depend on the model's precision
            each.append(torch.randn(shape, generator=draw, dtype=torch.float64))
        drawn = torch.stack(each).reshape(*x.shape[:-1], *shape)
        # a Gaussian vector over its length is uniform on the sphere
        lengths = norm_sq(drawn).sqrt().unsqueeze(-1)
        return (drawn / lengths).to(x)
