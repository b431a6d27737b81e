"""The one loop over trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedstep.core.vec import Scalar
from fedstep.steps.rule import ObjectiveAlongLine
from fedstep.steps.trial import Bracket, Trial

if TYPE_CHECKING:
    from fedstep.steps.search import LineSearch


@dataclass(frozen=True)
class LoopResult:
    """How the loop ended, per client."""

    step: Scalar  # accepted, 0: none
    value: Scalar  # phi there
    tried: Scalar  # the last trial, 0 where its value was not finite
    following: Scalar  # the trial that would have come next
    short: Scalar  # the longest trial that was only too short, 0: none
    trials: Tensor
    slopes: Tensor


class TrialLoop:
    """Trials along a ray, for all clients of a block together, until each has a good step.

    Clients leave the loop one by one (`active`): what is known of the others must not change any
    more, so everything is written through masks.
    """

    def __init__(
        self,
        search: LineSearch,
        ray: ObjectiveAlongLine,
        first: Trial,
        active: Tensor,
    ) -> None:
        self.search = search
        self.condition = search.condition
        self.propose = search.proposal or search.condition.proposal
        self.ray = ray
        self.trial = first
        self.active = active

        self.eta = first.eta
        self.accepted = torch.zeros_like(first.eta)
        self.below = torch.zeros_like(first.eta)
        self.above = torch.full_like(first.eta, inf)
        self.last_value = first.f
        self.accepted_value = first.f
        self.trials = torch.zeros_like(first.eta, dtype=torch.int64)
        self.slopes = torch.zeros_like(first.eta, dtype=torch.int64)

    def run(self) -> LoopResult:
        """Make the trials."""
        for number in range(self.search.trials):
            if not bool(self.active.any()):
                break
            if number == 0:
                self.ray = ray_of_some(self.ray, self.active)
            self._evaluate()
            verdict = self._judge()
            verdict = self._accept(verdict)
            self._narrow(verdict)
            self._move_on(verdict, first=number == 0)
        return self._result()

    def _evaluate(self) -> None:
        value = values_of_some(self.ray, self.eta, self.active)
        self.trial = replace(self.trial, eta=self.eta, value=value)
        self.last_value = torch.where(self.active, value, self.last_value)
        self.trials = self.trials + self.active

    def _judge(self) -> Tensor:
        """+1 too long, -1 too short, 0 good."""
        finite = torch.isfinite(self.trial.value)
        # a loss of minus infinity is overflow, not success
        verdict = torch.where(
            finite,
            self.condition(self.trial),
            1,
        )
        if self.condition.asks_slope:
            verdict = self._judge_slopes(verdict)
        if self.condition.two_sided:
            # too short, but there is nothing longer to try
            longest = self.eta >= self.search.max_step
            verdict = torch.where(
                (verdict < 0) & longest,
                0,
                verdict,
            )
        return verdict

    def _judge_slopes(self, verdict: Tensor) -> Tensor:
        """Verdicts with the slopes of the trials whose values passed."""
        passed = self.active & (verdict == 0)
        self.slopes = self.slopes + passed
        if not bool(passed.any()):
            return verdict
        slope = values_of_some(self.ray.derivative, self.trial.eta, passed)
        judged = self.condition.judge_slope(self.trial, slope)
        # as with values, a slope that is not finite counts as too long
        judged = torch.where(torch.isfinite(slope), judged, 1)
        return torch.where(passed, judged, verdict)

    def _accept(self, verdict: Tensor) -> Tensor:
        """Remember good steps; in search of the largest, a good one may still be too short."""
        good = self.active & (verdict == 0)
        self.accepted = torch.where(good, self.eta, self.accepted)
        if not self.search.largest:
            return verdict
        self.accepted_value = torch.where(
            good,
            self.trial.value,
            self.accepted_value,
        )
        # too short while a bad step stands well above it
        gap = self.above - self.eta
        room = (self.eta < self.search.max_step) & (gap > self.search.tolerance * self.eta)
        return verdict - (good & room).int()

    def _narrow(self, verdict: Tensor) -> None:
        self.active = self.active & (verdict != 0)
        too_long = self.active & (verdict > 0)
        self.above = torch.where(too_long, self.eta, self.above)
        # under a plain Armijo search no step is too short: one operation a trial is saved
        if self.condition.two_sided or self.search.largest:
            too_short = self.active & (verdict < 0)
            self.below = torch.where(too_short, self.eta, self.below)

    def _move_on(
        self,
        verdict: Tensor,
        first: bool,
    ) -> None:
        # the largest step has its own end (`_accept`); the bracket must not end it earlier
        tolerance = 0.0
        if not self.search.largest:
            tolerance = self.search.tolerance
        bracket = Bracket(
            below=self.below,
            above=self.above,
            first=first,
            shrink=self.search.shrink,
            tolerance=tolerance,
        )
        following = self.propose(self.trial, verdict, bracket)
        if self.condition.two_sided:
            self.active = self.active & (following > 0)
        following = following.clamp(max=self.search.max_step)
        self.eta = torch.where(self.active, following, self.eta)

    def _result(self) -> LoopResult:
        value = self.last_value
        if self.search.largest:
            value = self.accepted_value
        return LoopResult(
            step=self.accepted,
            value=value,
            tried=torch.where(
                torch.isfinite(self.last_value),
                self.trial.eta,
                0.0,
            ),
            following=self.eta,
            short=self.below,
            trials=self.trials,
            slopes=self.slopes,
        )


def ray_of_some(ray: ObjectiveAlongLine, active: Tensor) -> ObjectiveAlongLine:
    """The ray without what it would prepare for clients that are not going to be asked."""
    among = getattr(ray, "among", None)
    if among is None:
        return ray
    some: ObjectiveAlongLine = among(active)
    return some


def values_of_some(
    ray: Callable[[Scalar, Tensor | None], Scalar],
    eta: Scalar,
    active: Tensor,
) -> Scalar:
    """Values or slopes along a ray; only active clients are evaluated, the others get NaN.

    Where a trial is cheaper than picking the rows for it, all are evaluated, and nobody looks at
    the others.
    """
    cheap = getattr(ray, "cheap", False)
    if eta.dim() == 0 or cheap or bool(active.all()):
        return ray(eta, None)
    rows = active.nonzero().squeeze(-1)
    values = ray(eta[rows], rows)
    return torch.full_like(eta, torch.nan).index_copy(
        0,
        rows,
        values,
    )
