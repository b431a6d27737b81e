"""Server optimisers that scale every coordinate by its second moment.

One rule for Reddi et al. (2021, Algorithm 2) whose second moment is a part, and AMSGrad.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, State, Vec
from fedstep.server.rules import ServerRule, ServerStep, check_step


class SecondMoment(ABC):
    """How the squares of d are summed up."""

    @abstractmethod
    def __call__(self, v: Vec, square: Vec) -> Vec:
        """New second moment from the old one and d^2."""


@dataclass(frozen=True)
class Sum(SecondMoment):
    """v + d^2 (Adagrad)."""

    def __call__(self, v: Vec, square: Vec) -> Vec:
        return v + square


@dataclass(frozen=True)
class Average(SecondMoment):
    """beta v + (1 - beta) d^2 (Adam)."""

    beta: float = 0.99

    def __call__(self, v: Vec, square: Vec) -> Vec:
        return self.beta * v + (1 - self.beta) * square


@dataclass(frozen=True)
class Signed(SecondMoment):
    """v - (1 - beta) d^2 sign(v - d^2) (Yogi)."""

    beta: float = 0.99

    def __call__(self, v: Vec, square: Vec) -> Vec:
        return v - (1 - self.beta) * square * torch.sign(v - square)


@dataclass(frozen=True)
class Adaptive(ServerRule):
    """m <- beta m + (1 - beta) d;  v <- moment(v, d^2);  x + step * m / (sqrt(v) + tau).

    v begins at `start` (None: tau^2, as in the paper) and there is no bias correction. A coordinate
    with v = tau = 0 does not move.
    """

    moment: SecondMoment
    step: float = 0.1
    beta: float = 0.9
    tau: float = 1e-3  # also how much of plain averaging is left: the larger, the more
    start: float | None = None  # Flower begins at 0

    def __post_init__(self) -> None:
        check_slots(self, moment=SecondMoment)
        check_step("Adaptive", self.step)
        if not 0 <= self.beta < 1:
            raise InputError(f"Adaptive(beta={self.beta}): beta must lie in [0, 1)")
        if not self.tau >= 0:
            raise InputError(f"Adaptive(tau={self.tau}): tau must be 0 or more; 0.001 is usual")
        if self.start is not None and not self.start >= 0:
            raise InputError(
                f"Adaptive(start={self.start}): start must be 0 or more, or None for tau^2"
            )

    @property
    def usual_step(self) -> float:
        return self.step

    def init(self, x: Vec) -> NewState:
        # the paper's choice: v must be at least tau^2, so that m / (sqrt(v) + tau) is tame at first
        first = self.start
        if first is None:
            first = self.tau**2
        return {
            "m": torch.zeros_like(x),
            "v": torch.full_like(x, first),
        }

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        m = self.beta * state["m"] + (1 - self.beta) * d
        v = self.moment(state["v"], d * d)
        below = v.sqrt() + self.tau
        # a parameter that has never had a gradient: 0 / 0 would be NaN
        move = torch.where(below > 0, m / below, torch.zeros_like(m))
        return ServerStep(
            x=x + self.step * move,
            eta_g=x.new_full((), self.step),
            state={"m": m, "v": v},
        )


@dataclass(frozen=True)
class Peak(ServerRule):
    """AMSGrad on the server: the largest second moment so far counts (FedAMS; Wang et al., 2022).

        m <- beta m + (1 - beta) d;  v <- beta2 v + (1 - beta2) d^2
        option 1, floor:      p <- max(p, v, eps);  x + step * m / sqrt(p)
        option 2, no floor:   p <- max(p, v);       x + step * m / (sqrt(p) + eps)

    v and p begin at `start`; there is no bias correction, as in the paper. A coordinate with p = 0
    does not move.
    """

    step: float = 1.0
    beta: float = 0.9
    beta2: float = 0.99  # 1 freezes v, for reductions
    eps: float = 1e-8
    floor: bool = True  # the paper's option 1; False: option 2
    start: float = 0.0

    def __post_init__(self) -> None:
        check_step("Peak", self.step)
        if not (0 <= self.beta < 1 and 0 <= self.beta2 <= 1):
            raise InputError(
                f"Peak(beta={self.beta}, beta2={self.beta2}): "
                "both must lie in [0, 1), beta2 may be 1"
            )
        if not (self.eps >= 0 and self.start >= 0):
            raise InputError(f"Peak(eps={self.eps}, start={self.start}): both must be 0 or more")

    @property
    def usual_step(self) -> float:
        return self.step

    def init(self, x: Vec) -> NewState:
        first = torch.full_like(x, self.start)
        return {
            "m": torch.zeros_like(x),
            "v": first,
            "peak": first,
        }

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        m = self.beta * state["m"] + (1 - self.beta) * d
        # v itself goes on to fall; only what divides does not
        v = self.beta2 * state["v"] + (1 - self.beta2) * d * d
        peak = torch.maximum(state["peak"], v)
        if self.floor:
            # kept in the state: the floor of option 1 is part of the maximum
            peak = peak.clamp(min=self.eps)
            below = peak.sqrt()
        else:
            below = peak.sqrt() + self.eps
        move = torch.where(below > 0, m / below, torch.zeros_like(m))
        return ServerStep(
            x=x + self.step * move,
            eta_g=x.new_full((), self.step),
            state={
                "m": m,
                "v": v,
                "peak": peak,
            },
        )
