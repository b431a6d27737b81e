"""Polyak's step: as far as a linear model needs to reach a lower bound of the loss. No trials."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar, State, Vec
from fedstep.steps.resets import Reset, Restart
from fedstep.steps.rule import Outcome, Phi, StepRule
from fedstep.steps.search import ZERO_GRADIENT
from fedstep.steps.trial import Point


@dataclass(frozen=True)
class Polyak(StepRule):
    """The stochastic Polyak step (Loizou et al., 2021).

        eta = min(bound, (f(x) - lower) / (c |<g, d>| + eps))

    `lower` bounds the loss from below. The bound is what `reset` makes of the last step, at most max_step: `Restart` (default)
    is SPS_max with bound max_step, `Grow` the smoothed variant, whose steps grow slowly from `start`. <g, d> is -|g|^2 for
    steepest descent. The papers have no eps; the SPS program's 1e-8 stalls it once |g|^2 is as small. No step where the loss is
    not above `lower`, or not finite, or d is no direction of descent.
    """

    c: float = 0.5
    max_step: float = inf
    reset: Reset = Restart()
    start: float | None = None
    lower: float = 0.0
    eps: float = 0.0
    carry: bool = False
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check("Polyak", self.c, self.max_step)
        if self.start is not None and not 0 < self.start <= self.max_step:
            raise InputError(
                f"Polyak(start={self.start}): start must lie in (0, max_step={self.max_step}]"
            )
        if not isinstance(self.reset, Reset):
            raise InputError(f"Polyak(reset={self.reset!r}): give a part such as Restart()")
        if (
            self.start is None
            and not isfinite(self.max_step)
            and not isinstance(self.reset, Restart)
        ):
            raise InputError("Polyak(max_step=inf): give a finite start, from which the steps grow")
        if not self.eps >= 0:
            raise InputError(f"Polyak(eps={self.eps}): eps must be 0 or more")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"step": x.new_full(x.shape[:-1], self._start())}

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, dict[str, Tensor]]:
        slope, last = phi.slope(g, d), state["step"]
        start = torch.full_like(f, self._start())
        bound = self.reset(Point(f, slope, last, start, phi.share, 1.0), {}).clamp(
            max=self.max_step
        )
        step = torch.minimum(bound, (f - self.lower) / (self.c * slope.abs() + self.eps))
        step = torch.where(_moves(phi, f, g, slope) & (step > 0), step, torch.zeros_like(step))
        # a batch that is fitted already must not set the bound to 0 for good
        return Outcome.free(step), {"step": torch.where(step > 0, step, last)}

    def _start(self) -> float:
        return self.max_step if self.start is None else self.start


@dataclass(frozen=True)
class DecreasingPolyak(StepRule):
    """Polyak's step, forced to decrease (DecSPS of Orvieto et al., 2022).

        eta_k = min((f(x) - lower) / |<g, d>|, c_{k-1} eta_{k-1}) / c_k,   c_k = c sqrt(k + 1)

    k = 0, 1, ... counts the client's steps, over all its rounds if carry. It begins with c_{-1} = c and eta_{-1} = max_step.
    Converges without interpolation too, where `Polyak` stays in a neighbourhood.
    """

    c: float = 0.5
    max_step: float = 1.0
    lower: float = 0.0
    carry: bool = True
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check("DecreasingPolyak", self.c, self.max_step)
        if not isfinite(self.max_step):
            raise InputError(
                "DecreasingPolyak(max_step=inf): the largest step must be finite; try 1"
            )

    def init(self, x: Vec) -> dict[str, Tensor]:
        shape = x.shape[:-1]
        return {"product": x.new_full(shape, self.c * self.max_step), "steps": x.new_zeros(shape)}

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, dict[str, Tensor]]:
        slope = phi.slope(g, d)
        product = torch.minimum(state["product"], (f - self.lower) / slope.abs())
        moves = _moves(phi, f, g, slope) & (product > 0)
        step = torch.where(
            moves, product / (self.c * (state["steps"] + 1).sqrt()), torch.zeros_like(f)
        )
        after = {
            "product": torch.where(moves, product, state["product"]),
            "steps": state["steps"] + 1,
        }
        return Outcome.free(step), after


def _check(name: str, c: float, max_step: float) -> None:
    if not c > 0:
        raise InputError(f"{name}(c={c}): c must be positive; the papers use 0.5")
    if not max_step > 0:
        raise InputError(f"{name}(max_step={max_step}): the largest step must be positive")


def _moves(phi: Phi, f: Scalar, g: Vec, slope: Scalar) -> Tensor:
    """Whether the client is at a point with a finite loss and a direction of descent, and not stationary."""
    return (
        torch.isfinite(f)
        & torch.isfinite(slope)
        & (slope < 0)
        & (phi.norm_sq(g) >= ZERO_GRADIENT**2)
    )
