"""Polyak's step: as far as a linear model needs to reach a lower bound of the loss. No trials."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, Scalar, State, Vec
from fedstep.steps.resets import Reset, Restart
from fedstep.steps.rule import Outcome, Phi, StepRule
from fedstep.steps.search import ZERO_GRADIENT
from fedstep.steps.trial import SearchStart


@dataclass(frozen=True)
class Polyak(StepRule):
    """The stochastic Polyak step (Loizou et al., 2021).

        eta = min(bound, (f(x) - lower) / (c |<g, d>| + eps))

    `lower` bounds the loss from below. The bound is what `reset` makes of the last step, at most
    max_step: `Restart` (default) is SPS_max with bound max_step, `Grow` the smoothed variant,
    whose steps grow slowly from `start`. <g, d> is -|g|^2 for steepest descent. The papers have
    no eps; the SPS program's 1e-8 stalls it once |g|^2 is as small. No step where the loss is not
    above `lower`, or not finite, or d is no direction of descent.
    """

    c: float = 0.5  # 1/2 fits convex losses; larger is more careful
    max_step: float = inf  # no step is longer
    reset: Reset = Restart()  # the bound, from the last step
    start: float | None = None  # the first bound; None: max_step
    lower: float = 0.0  # bound of the loss from below
    eps: float = 0.0  # in the denominator
    carry: bool = False
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_positive("Polyak", self.c, self.max_step)
        if self.start is not None and not 0 < self.start <= self.max_step:
            raise InputError(
                f"Polyak(start={self.start}): start must lie in (0, max_step={self.max_step}]"
            )
        check_slots(self, reset=Reset)
        restarts = isinstance(self.reset, Restart)
        if self.start is None and not isfinite(self.max_step) and not restarts:
            raise InputError("Polyak(max_step=inf): give a finite start, from which the steps grow")
        if not self.eps >= 0:
            raise InputError(f"Polyak(eps={self.eps}): eps must be 0 or more")

    def init(self, x: Vec) -> NewState:
        return {"step": x.new_full(x.shape[:-1], self._start())}

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
        last = state["step"]
        begin = SearchStart(
            f=f,
            slope=slope,
            last=last,
            start=torch.full_like(f, self._start()),
            share=phi.share,
            shrink=1.0,  # nothing is ever tried and cut
        )
        bound = self.reset(begin, {}).clamp(max=self.max_step)
        step = (f - self.lower) / (self.c * slope.abs() + self.eps)
        step = torch.minimum(bound, step)
        moves = _can_move(
            phi,
            f,
            g,
            slope,
        ) & (step > 0)
        step = torch.where(moves, step, torch.zeros_like(step))
        # a batch that is fitted already must not set the bound to 0 for good
        remembered = torch.where(step > 0, step, last)
        return Outcome.free(step), {"step": remembered}

    def _start(self) -> float:
        if self.start is None:
            return self.max_step
        return self.start


@dataclass(frozen=True)
class DecreasingPolyak(StepRule):
    """Polyak's step, forced to decrease (DecSPS of Orvieto et al., 2022).

        eta_k = min((f(x) - lower) / |<g, d>|, c_{k-1} eta_{k-1}) / c_k,   c_k = c sqrt(k + 1)

    k = 0, 1, ... counts the client's steps, over all its rounds if carry. It begins with c_{-1} =
    c and eta_{-1} = max_step. Converges without interpolation too, where `Polyak` stays in a
    neighbourhood.
    """

    c: float = 0.5  # 1/2 fits convex losses; larger is more careful
    max_step: float = 1.0  # the step before the first
    lower: float = 0.0  # bound of the loss from below
    carry: bool = True  # the steps fall over all rounds of a client
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_positive("DecreasingPolyak", self.c, self.max_step)
        if not isfinite(self.max_step):
            raise InputError(
                "DecreasingPolyak(max_step=inf): the largest step must be finite; try 1"
            )

    def init(self, x: Vec) -> NewState:
        clients = x.shape[:-1]
        return {
            "product": x.new_full(clients, self.c * self.max_step),
            "steps": x.new_zeros(clients),
        }

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
        polyak = (f - self.lower) / slope.abs()
        product = torch.minimum(state["product"], polyak)
        steps = state["steps"] + 1
        moves = _can_move(
            phi,
            f,
            g,
            slope,
        ) & (product > 0)
        step = product / (self.c * steps.sqrt())
        step = torch.where(moves, step, torch.zeros_like(f))
        after = {
            "product": torch.where(moves, product, state["product"]),
            "steps": steps,
        }
        return Outcome.free(step), after


def _check_positive(
    name: str,
    c: float,
    max_step: float,
) -> None:
    if not c > 0:
        raise InputError(f"{name}(c={c}): c must be positive; the papers use 0.5")
    if not max_step > 0:
        raise InputError(f"{name}(max_step={max_step}): the largest step must be positive")


def _can_move(
    phi: Phi,
    f: Scalar,
    g: Vec,
    slope: Scalar,
) -> Tensor:
    """Whether the loss is finite, the direction one of descent, and the point not stationary."""
    finite = torch.isfinite(f) & torch.isfinite(slope)
    # asked as ">=", so that a gradient that is not a number does not move the client
    has_gradient = phi.norm_sq(g) >= ZERO_GRADIENT**2
    return finite & (slope < 0) & has_gradient
