"""Adaptive server optimisers: one rule for Reddi et al. (2021, Algorithm 2) whose second moment is a part, and AMSGrad."""

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

    v begins at `start` (None: tau^2, as in the paper) and there is no bias correction. A coordinate with v = tau = 0 does not
    move.
    """

    moment: SecondMoment
    step: float = 0.1
    beta: float = 0.9
    tau: float = 1e-3
    start: float | None = None

    def __post_init__(self) -> None:
        check_step("Adaptive", self.step)
        if not 0 <= self.beta < 1:
            raise InputError(f"Adaptive(beta={self.beta}): beta must lie in [0, 1)")
        if not self.tau >= 0:
            raise InputError(f"Adaptive(tau={self.tau}): tau must be 0 or more; 0.001 is usual")
        if self.start is not None and not self.start >= 0:
            raise InputError(
                f"Adaptive(start={self.start}): start must be 0 or more, or None for tau^2"
            )

    def init(self, x: Vec) -> dict[str, Tensor]:
        first = self.tau**2 if self.start is None else self.start
        return {"m": torch.zeros_like(x), "v": torch.full_like(x, first), **eta(x, self.step)}

    def update(self, x: Vec, d: Vec, agg: Aggregate, state: State) -> tuple[Vec, dict[str, Tensor]]:
        m = self.beta * state["m"] + (1 - self.beta) * d
        v = self.moment(state["v"], d * d)
        below = v.sqrt() + self.tau
        move = torch.where(below > 0, m / below, torch.zeros_like(m))
        return x + self.step * move, {**state, "m": m, "v": v}


@dataclass(frozen=True)
class Peak:
    """AMSGrad on the server: the largest second moment so far counts (FedAMS; Wang, Lin and Chen, 2022).

        m <- beta m + (1 - beta) d;  v <- beta2 v + (1 - beta2) d^2
        option 1, floor:      p <- max(p, v, eps);  x + step * m / sqrt(p)
        option 2, no floor:   p <- max(p, v);       x + step * m / (sqrt(p) + eps)

    v and p begin at `start`; there is no bias correction, as in the paper. A coordinate with p = 0 does not move.
    """

    step: float = 1.0
    beta: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-8
    floor: bool = True
    start: float = 0.0

    def __post_init__(self) -> None:
        check_step("Peak", self.step)
        if not (0 <= self.beta < 1 and 0 <= self.beta2 <= 1):
            raise InputError(
                f"Peak(beta={self.beta}, beta2={self.beta2}): both must lie in [0, 1), beta2 may be 1"
            )
        if not (self.eps >= 0 and self.start >= 0):
            raise InputError(f"Peak(eps={self.eps}, start={self.start}): both must be 0 or more")

    def init(self, x: Vec) -> dict[str, Tensor]:
        first = torch.full_like(x, self.start)
        return {"m": torch.zeros_like(x), "v": first, "peak": first, **eta(x, self.step)}

    def update(self, x: Vec, d: Vec, agg: Aggregate, state: State) -> tuple[Vec, dict[str, Tensor]]:
        m = self.beta * state["m"] + (1 - self.beta) * d
        v = self.beta2 * state["v"] + (1 - self.beta2) * d * d
        peak = torch.maximum(state["peak"], v)
        peak = peak.clamp(min=self.eps) if self.floor else peak
        below = peak.sqrt() if self.floor else peak.sqrt() + self.eps
        move = torch.where(below > 0, m / below, torch.zeros_like(m))
        return x + self.step * move, {**state, "m": m, "v": v, "peak": peak}
