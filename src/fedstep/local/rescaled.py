"""Directions scaled by statistics that the server sends."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import State, Vec
from fedstep.local.directions import Direction


@dataclass(frozen=True)
class Rescaled(Direction):
    """d / (sqrt(v) + eps), where v is what the server shares as "direction.second" (1 where it shares none).

    v is not changed in a round.
    """

    eps: float = 1e-3

    def __post_init__(self) -> None:
        if not self.eps > 0:
            raise InputError(f"Rescaled(eps={self.eps}): eps must be positive; try 0.001")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"second": torch.ones_like(x)}

    def apply(self, d: Vec, x: Vec, state: State) -> tuple[Vec, dict[str, Tensor]]:
        return d / (state["second"].sqrt() + self.eps), dict(state)
