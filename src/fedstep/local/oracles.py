"""How the slope is learnt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch

from fedstep.core.vec import Scalar, Vec
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
    """Reverse-mode differentiation; in a block every row depends on its own client only, so one pass serves all."""

    forwards: ClassVar[int] = 1
    backwards: ClassVar[int] = 1
    intrinsic: ClassVar[bool] = True  # the gradient belongs to the inner product of the coordinates at hand

    def __call__(self, phi: Objective, x: Vec) -> tuple[Scalar, Vec]:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            f = phi(leaf)
            (g,) = torch.autograd.grad(f.sum(), leaf)
        return f.detach(), g
