"""Adaptive server optimisers (Reddi et al., 2021, Algorithm 2): one rule, the second moment is a part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.vec import State, Vec
from fedstep.server.rules import check_step, eta


class SecondMoment(Protocol):
    """How the squares of d are summed up."""

    def __call__(self, v: Vec, square: Vec) -> Vec:
        """New second moment from the old one and d^2."""
        ...


@dataclass(frozen=True)
class Sum:
    """v + d^2 (Adagrad)."""

    def __call__(self, v: Vec, square: Vec) -> Vec:
        return v + square


@dataclass(frozen=True)
class Average:
    """beta v + (1 - beta) d^2 (Adam)."""

    beta: float = 0.99

    def __call__(self, v: Vec, square: Vec) -> Vec:
        return self.beta * v + (1 - self.beta) * square


@dataclass(frozen=True)
class Signed:
    """v - (1 - beta) d^2 sign(v - d^2) (Yogi)."""

    beta: float = 0.99

    def __call__(self, v: Vec, square: Vec) -> Vec:
        return v - (1 - self.beta) * square * torch.sign(v - square)


@dataclass(frozen=True)
class Adaptive:
    """m <- beta m + (1 - beta) d;  v <- moment(v, d^2);  x + step * m / (sqrt(v) + tau).

    v begins at tau^2 and there is no bias correction, as in the paper. A coordinate with v = 0 does not move.
    """

    moment: SecondMoment
    step: float = 0.1
    beta: float = 0.9
    tau: float = 1e-3

    def __post_init__(self) -> None:
        check_step("Adaptive", self.step)
        if not 0 <= self.beta < 1:
            raise InputError(f"Adaptive(beta={self.beta}): beta must lie in [0, 1)")
        if not self.tau >= 0:
            raise InputError(f"Adaptive(tau={self.tau}): tau must be 0 or more; 0.001 is usual")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"m": torch.zeros_like(x), "v": torch.full_like(x, self.tau**2), **eta(x, self.step)}

    def update(self, x: Vec, d: Vec, agg: Aggregate, state: State) -> tuple[Vec, dict[str, Tensor]]:
        m = self.beta * state["m"] + (1 - self.beta) * d
        v = self.moment(state["v"], d * d)
        below = v.sqrt() + self.tau
        move = torch.where(below > 0, m / below, torch.zeros_like(m))
        return x + self.step * move, {**state, "m": m, "v": v}
