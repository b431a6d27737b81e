"""The line search: one loop of trials for every condition, reset, reference and proposal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.nested import NestedState
from fedstep.core.vec import Scalar, State, Vec, lift
from fedstep.steps.cadence import Always, Cadence
from fedstep.steps.conditions import Armijo, Condition
from fedstep.steps.proposals import Proposal
from fedstep.steps.references import Current, Reference
from fedstep.steps.resets import Failure, Grow, Reset, Settle
from fedstep.steps.rule import Outcome, Phi, Ray, StepRule
from fedstep.steps.trial import Bracket, Ended, Point, Took, Trial

ZERO_GRADIENT = 1e-8  # a gradient shorter than this is a stationary point of the batch: no move


@dataclass(frozen=True)
class SearchState(NestedState):
    """What a search knows when it begins: the step it starts from, and what its parts remember."""

    step: Scalar
    reset: State
    reference: State
    cadence: State


@dataclass(frozen=True)
class LineSearch(StepRule):
    """Try steps on the batch at hand until one is good (Vaswani et al., 2019, for the stochastic Armijo search).

        first = min(reset(last, start), max_step);  then eta <- shrink * eta until the condition accepts

    The first trial is the reset value itself. A round begins with last = start (max_step unless given), so that all resets
    begin at max_step, as the paper prints it; with `carry` it begins with the client's last accepted step instead, and with
    `share` with the geometric mean of the last steps of the clients of the round before: one number, sent with the model.

    Conditions that know steps that are too short too choose the next trial by a `proposal` (None: the condition's own). No trial
    is longer than max_step; a step that is too short there is taken, for want of a longer one. A search ends without a good step
    once too short and too long lie within the relative `tolerance`: close to a minimum rounding leaves nothing between them.

    `largest` replaces the grid by the largest acceptable step in (0, max_step], to the relative `tolerance`, provided the
    acceptable steps form an interval (convex f): the paper's analysis assumes it. It begins every search at the start value.

    `slack` is the noise of comparing two rounded losses, in units in the last place of the reference.
    A search that finds nothing in `trials` trials, or meets a loss that is not finite, is counted as failed.
    `cadence` may leave searches out; the first guess is then taken untested, and not remembered as accepted.
    """

    condition: Condition = Armijo()
    reset: Reset = Grow()
    reference: Reference = Current()
    max_step: float = 10.0
    shrink: float = 0.9
    trials: int = 100
    start: float | None = None
    failure: Failure = Settle()
    largest: bool = False
    tolerance: float = 1e-3
    carry: bool = False
    share: bool = False
    slack: float = 4.0
    proposal: Proposal | None = None
    cadence: Cadence = Always()
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, kind in (
            ("condition", Condition),
            ("reset", Reset),
            ("reference", Reference),
            ("cadence", Cadence),
        ):
            if not isinstance(getattr(self, name), kind):
                raise InputError(
                    f"LineSearch({name}={getattr(self, name)!r}): give a {name} from fedstep.steps"
                )
        if not self.reference.relaxes and not isinstance(self.condition, Armijo):
            names = type(self.reference).__name__, type(self.condition).__name__
            raise InputError(
                f"LineSearch: {names[0]} with {names[1]}: this reference changes the slope; use Armijo"
            )
        if not self.max_step > 0:
            raise InputError(
                f"LineSearch(max_step={self.max_step}): max_step must be positive; try 10"
            )
        if not 0 < self.shrink < 1:
            raise InputError(
                f"LineSearch(shrink={self.shrink}): shrink must lie in (0, 1); try 0.9"
            )
        if self.trials < 1:
            raise InputError(
                f"LineSearch(trials={self.trials}): at least one trial is needed; try 100"
            )
        if self.start is not None and not 0 < self.start <= self.max_step:
            raise InputError(
                f"LineSearch(start={self.start}): start must lie in (0, max_step={self.max_step}]"
            )
        if not isfinite(self.max_step) and (self.start is None or self.largest):
            raise InputError(
                "LineSearch(max_step=inf): give a finite start, and leave `largest` off"
            )
        if self.carry and self.share:
            raise InputError(
                "LineSearch(carry=True, share=True): begin with the client's own last step, or the cohort's"
            )
        if not self.slack >= 0:
            raise InputError(f"LineSearch(slack={self.slack}): the slack must be 0 or more; try 4")
        if not 0 < self.tolerance < 1:
            raise InputError(
                f"LineSearch(tolerance={self.tolerance}): the relative tolerance must lie in (0, 1)"
            )

    def init(self, x: Vec) -> dict[str, Tensor]:
        state = SearchState(
            step=x.new_full(x.shape[:-1], self._start()),
            reset=self.reset.init(x),
            reference=self.reference.init(x),
            cadence=self.cadence.init(x),
        )
        return state.flat()

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        return {"start": x.new_tensor(self._start())} if self.share else {}

    def begin(self, x: Vec, shared: State, memory: State) -> dict[str, Tensor]:
        state = super().begin(x, shared, memory)
        return (
            {**state, "step": shared["start"].expand(x.shape[:-1]).to(x)} if self.share else state
        )

    def message(self, state: State) -> dict[str, Tensor]:
        return {"log": state["step"].log()} if self.share else {}

    def fold(self, shared: State, message: State, agg: Aggregate) -> dict[str, Tensor]:
        return (
            {"start": agg.mean(message["log"]).exp().clamp(max=self.max_step)} if self.share else {}
        )

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, dict[str, Tensor]]:
        slope, start = phi.slope(g, d), torch.full_like(f, self._start())
        before = SearchState.of(state)
        last, guesses, lines, times = before.step, before.reset, before.reference, before.cadence
        first = start
        if not self.largest:
            first = self.reset(Point(f, slope, last, start, phi.share, self.shrink), guesses).clamp(
                max=self.max_step
            )

        usable = torch.isfinite(f) & torch.isfinite(slope)
        still = usable & ((phi.norm_sq(g) < ZERO_GRADIENT**2) | (first == 0))
        ready = (
            usable & ~still & (slope < 0)
        )  # never along a direction that is not one of finite descent
        due, times = self.cadence(f, times)
        begin, trust = ready & due, ready & ~due

        reference, decline, seen = self.reference(f, slope, lines)
        noise = self.slack * torch.finfo(f.dtype).eps * reference.abs()
        found = self._try(
            phi.along(x, d), Trial(first, f, f, slope, reference, decline, noise), begin
        )
        failed = ~still & ~trust & (found.step == 0)
        fallback, restart = self.failure(Ended(found.tried, found.following, found.short, start))
        step = torch.where(failed & begin, fallback, found.step)

        kept = torch.where(failed, torch.where(begin, restart, start), step)
        kept = torch.where(trust | (still & (first == 0)), last, torch.where(still, first, kept))
        seen = _where(due, seen, lines)
        took = Took(found.trials, found.step, (found.value - f) / (found.step * slope))
        after = SearchState(
            step=kept,
            reset=_where(begin, self.reset.after(took, guesses), guesses),
            reference=_where(found.step > 0, self.reference.after(f - found.value, seen), seen),
            cadence=_where(begin, self.cadence.after(step, times), times),
        )
        taken = torch.where(trust, first, step)
        return Outcome(taken, found.trials, failed, found.slopes), after.flat()

    def _start(self) -> float:
        return self.max_step if self.start is None else self.start

    def _try(self, ray: Ray, trial: Trial, active: Tensor) -> Found:
        """The loop, beginning at the trial's eta."""
        propose, eta = self.proposal or self.condition.proposal, trial.eta
        tolerance, two_sided = 0.0 if self.largest else self.tolerance, self.condition.two_sided
        accepted, below, above = (
            torch.zeros_like(eta),
            torch.zeros_like(eta),
            torch.full_like(eta, inf),
        )
        seen, reached = trial.f, trial.f
        trials, slopes = (torch.zeros_like(eta, dtype=torch.int64) for _ in range(2))
        for k in range(self.trials):
            if not bool(active.any()):
                break
            trials = trials + active
            trial = replace(trial, eta=eta, value=_some(ray, eta, active))
            seen = torch.where(active, trial.value, seen)
            # a loss of minus infinity is overflow, not success
            verdict = torch.where(torch.isfinite(trial.value), self.condition(trial), 1)
            if self.condition.asks_slope:
                passed = active & (verdict == 0)
                verdict, slopes = self._bend(ray, trial, passed, verdict), slopes + passed
            if two_sided:  # there is nothing longer to try
                verdict = torch.where((verdict < 0) & (eta >= self.max_step), 0, verdict)
            good = active & (verdict == 0)
            accepted = torch.where(good, eta, accepted)
            if self.largest:  # a good step is too short while a bad one stands well above it
                reached = torch.where(good, trial.value, reached)
                verdict = (
                    verdict
                    - (good & (eta < self.max_step) & (above - eta > self.tolerance * eta)).int()
                )
            active = active & (verdict != 0)
            above = torch.where(active & (verdict > 0), eta, above)
            if two_sided or self.largest:
                below = torch.where(active & (verdict < 0), eta, below)
            following = propose(
                trial, verdict, Bracket(below, above, k == 0, self.shrink, tolerance)
            )
            if two_sided:
                active = active & (following > 0)
            eta = torch.where(active, following.clamp(max=self.max_step), eta)
        tried = torch.where(torch.isfinite(seen), trial.eta, 0.0)
        return Found(accepted, reached if self.largest else seen, tried, eta, below, trials, slopes)

    def _bend(self, ray: Ray, trial: Trial, passed: Tensor, verdict: Tensor) -> Tensor:
        """Verdicts with the slopes of the trials whose values passed; a slope that is not finite counts as too long."""
        if not bool(passed.any()):
            return verdict
        slope = _some(ray.derivative, trial.eta, passed)
        bent = torch.where(torch.isfinite(slope), self.condition.bend(trial, slope), 1)
        return torch.where(passed, bent, verdict)


@dataclass(frozen=True)
class Found:
    """What the loop found, per client."""

    step: Scalar  # accepted, 0: none
    value: Scalar  # phi there
    tried: Scalar  # the last trial, 0 where its value was not finite
    following: Scalar  # the trial that would have come next
    short: Scalar  # the longest trial that was only too short, 0: none
    trials: Tensor
    slopes: Tensor


def _some(ray: Callable[[Scalar, Tensor | None], Scalar], eta: Scalar, active: Tensor) -> Scalar:
    """Values or slopes along a ray; only clients that are asked for are evaluated, the others get NaN.

    Where a trial is cheaper than picking the rows for it, all are evaluated, and nobody looks at the others.
    """
    if eta.dim() == 0 or getattr(ray, "cheap", False) or bool(active.all()):
        return ray(eta, None)
    rows = active.nonzero().squeeze(-1)
    return torch.full_like(eta, torch.nan).index_copy(0, rows, ray(eta[rows], rows))


def _where(chosen: Tensor, new: State, old: State) -> dict[str, Tensor]:
    """The new state of the chosen clients, the old one of the others."""
    return {name: torch.where(lift(chosen, value), value, old[name]) for name, value in new.items()}
