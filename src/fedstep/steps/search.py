"""The line search: one loop of trials for every condition, reset and reference."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar, State, Vec
from fedstep.steps.conditions import Armijo, Condition
from fedstep.steps.references import Current, Reference
from fedstep.steps.resets import Failure, Grow, Reset, Skip
from fedstep.steps.rule import Outcome, Phi, Ray, StepRule

ZERO_GRADIENT = 1e-8  # a gradient shorter than this is a stationary point of the batch: no move


@dataclass(frozen=True)
class LineSearch(StepRule):
    """Try steps on the batch at hand until one is good (Vaswani et al., 2019, for the stochastic Armijo search).

        first = min(reset(last, start), max_step);  then eta <- shrink * eta until the condition accepts

    The first trial is the reset value itself. A round begins with last = start (max_step unless given), so that all resets
    begin at max_step, as the paper prints it; with `carry` it begins with the client's last accepted step instead.

    `largest` replaces the grid by the largest acceptable step in (0, max_step], to the relative `tolerance`, provided the
    acceptable steps form an interval (convex f): the paper's analysis assumes it. It begins every search at the start value.

    `slack` is the noise of comparing two rounded losses, in units in the last place of the reference.
    A search that finds nothing in `trials` trials, or meets a loss that is not finite, is counted as failed.
    """

    condition: Condition = Armijo()
    reset: Reset = Grow()
    reference: Reference = Current()
    max_step: float = 10.0
    shrink: float = 0.9
    trials: int = 100
    start: float | None = None
    failure: Failure = Skip()
    largest: bool = False
    tolerance: float = 1e-3
    carry: bool = False
    slack: float = 4.0
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.max_step > 0:
            raise InputError(f"LineSearch(max_step={self.max_step}): max_step must be positive; try 10")
        if not 0 < self.shrink < 1:
            raise InputError(f"LineSearch(shrink={self.shrink}): shrink must lie in (0, 1); try 0.9")
        if self.trials < 1:
            raise InputError(f"LineSearch(trials={self.trials}): at least one trial is needed; try 100")
        if self.start is not None and not 0 < self.start <= self.max_step:
            raise InputError(f"LineSearch(start={self.start}): start must lie in (0, max_step={self.max_step}]")
        if not isfinite(self.max_step) and (self.start is None or self.largest):
            raise InputError("LineSearch(max_step=inf): give a finite start, and leave `largest` off")
        if not self.slack >= 0:
            raise InputError(f"LineSearch(slack={self.slack}): the slack must be 0 or more; try 4")
        if not 0 < self.tolerance < 1:
            raise InputError(f"LineSearch(tolerance={self.tolerance}): the relative tolerance must lie in (0, 1)")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"step": x.new_full(x.shape[:-1], self._start()), **self.reference.init(x)}

    def search(self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State) -> tuple[Outcome, dict[str, Tensor]]:
        slope, start = phi.slope(g, d), torch.full_like(f, self._start())
        first = start if self.largest else self.reset(state["step"], start, phi.share).clamp(max=self.max_step)
        reference, remembered = self.reference(f, state)

        usable = torch.isfinite(f) & torch.isfinite(slope)
        still = usable & (phi.norm_sq(g) < ZERO_GRADIENT**2)
        begin = usable & ~still & (slope < 0)
        step, trial, trials = self._try(phi.along(x, d), first, reference, slope, begin)

        failed = ~still & (step == 0)
        fallback, restart = self.failure(trial, start)
        step = torch.where(failed & begin, fallback, step)  # never along a direction that is not one of finite descent
        last = torch.where(failed, torch.where(begin, restart, start), torch.where(still, first, step))
        return Outcome(step, trials, failed), {"step": last, **remembered}

    def _start(self) -> float:
        return self.max_step if self.start is None else self.start

    def _try(
        self, ray: Ray, eta: Scalar, reference: Scalar, slope: Scalar, active: Tensor
    ) -> tuple[Scalar, Scalar, Tensor]:
        """The loop: accepted step (0: none), last trial and number of trials, per client."""
        noise = self.slack * torch.finfo(eta.dtype).eps * reference.abs()
        accepted, below, above = torch.zeros_like(eta), torch.zeros_like(eta), torch.full_like(eta, inf)
        trials = torch.zeros_like(eta, dtype=torch.int64)
        for _ in range(self.trials):
            if not bool(active.any()):
                break
            trials = trials + active
            value = _values(ray, eta, active)
            verdict = self.condition(eta, value, reference, slope, noise)
            verdict = torch.where(
                torch.isfinite(value), verdict, 1
            )  # a loss of minus infinity is overflow, not success
            good = active & (verdict == 0)
            accepted = torch.where(good, eta, accepted)
            if self.largest:  # a good step is too short while a bad one stands well above it
                verdict = verdict - (good & (eta < self.max_step) & (above - eta > self.tolerance * eta)).int()
            active = active & (verdict != 0)
            above = torch.where(active & (verdict > 0), eta, above)
            below = torch.where(active & (verdict < 0), eta, below)
            geometric = torch.where(verdict > 0, eta * self.shrink, (eta / self.shrink).clamp(max=self.max_step))
            bracketed = (below > 0) & torch.isfinite(above)
            eta = torch.where(active, torch.where(bracketed, (below + above) / 2, geometric), eta)
        return accepted, eta, trials


def _values(ray: Ray, eta: Scalar, active: Tensor) -> Scalar:
    """Trial values; only clients that are still searching are evaluated."""
    if eta.dim() == 0 or bool(active.all()):
        return ray(eta, None)
    rows = active.nonzero().squeeze(-1)
    return torch.full_like(eta, torch.nan).index_copy(0, rows, ray(eta[rows], rows))
