"""The line search: one loop of trials for every condition, reset, reference and proposal."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.message_kinds import Logarithm, MessageKind
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, Scalar, State, Vec
from fedstep.steps.cadence import Always, Cadence
from fedstep.steps.conditions import Armijo, Condition
from fedstep.steps.failures import Failure, Settle
from fedstep.steps.proposals import Proposal
from fedstep.steps.references import Current, Reference
from fedstep.steps.resets import Grow, Reset
from fedstep.steps.rule import Outcome, Phi, StepRule
from fedstep.steps.search_state import SearchState, where_chosen
from fedstep.steps.trial import FailedSearch, SearchResult, SearchStart, Trial
from fedstep.steps.trial_loop import LoopResult, TrialLoop

# The first step of a round, and the longest; the default of every search of the library,
# `optim.Armijo` included. The paper prints no number for it. Its program begins every round at 1,
# with no cap, and may grow by 2^(1/500) a step; here 1 is the cap as well, which the theorems need.
# (The 10 of the SLS program caps the growth under Goldstein's conditions, which no run of it has.)
# docs/authors.md has the other constants.
FIRST_STEP = 1.0
ZERO_GRADIENT = 1e-8  # a gradient shorter than this is a stationary point of the batch: no move


@dataclass(frozen=True)
class LineSearch(StepRule):
    """Try steps on the batch at hand until one is good (Vaswani et al., 2019).

        first = min(reset(last, start), max_step)
        then eta <- shrink * eta until the condition accepts

    The first trial is the reset value itself. A round begins with last = start (max_step unless
    given), so that all resets begin at max_step, as the paper prints it; with `carry` it begins
    with the client's last accepted step instead, and with `share` with the geometric mean of the
    last steps of the clients of the round before: one number, sent with the model.

    Conditions that know steps that are too short too choose the next trial by a `proposal` (None:
    the condition's own). No trial is longer than max_step; a step that is too short there is
    taken, for want of a longer one. A search ends without a good step once too short and too long
    lie within the relative `tolerance`: close to a minimum rounding leaves nothing between them.

    `largest` replaces the grid by the largest acceptable step in (0, max_step], to the relative
    `tolerance`, provided the acceptable steps form an interval (convex f): the paper's analysis
    assumes it. It begins every search at the start value.

    `slack` is the noise of comparing two rounded losses, in units in the last place of the
    reference. A search that finds nothing in `trials` trials, or meets a loss that is not finite,
    is counted as failed. `cadence` may leave searches out; the first guess is then taken
    untested, and not remembered as accepted.
    """

    condition: Condition = Armijo()  # when a trial is good
    reset: Reset = Grow()  # where a search begins
    reference: Reference = Current()  # what a trial is compared with
    max_step: float = FIRST_STEP  # no trial is longer
    shrink: float = 0.9  # factor after a trial that is too long
    trials: int = 100  # at most, in one search
    start: float | None = None  # where a round begins; None: at max_step
    failure: Failure = Settle()  # what becomes of a search that found nothing
    largest: bool = False  # the largest good step instead of the first on the grid
    tolerance: float = 1e-3  # relative; of the bracket's width
    carry: bool = False  # begin a round with the client's own last step
    share: bool = False  # begin a round with the cohort's last step
    slack: float = 4.0  # rounding noise, in units in the last place
    proposal: Proposal | None = None  # the next trial; None: the condition's own way
    cadence: Cadence = Always()  # how often there is a search
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_slots(
            self,
            condition=Condition,
            reset=Reset,
            reference=Reference,
            failure=Failure,
            proposal=Proposal,
            cadence=Cadence,
        )
        self._check_numbers()
        self._check_together()

    def _check_numbers(self) -> None:
        if not self.max_step > 0:
            raise InputError(
                f"LineSearch(max_step={self.max_step}): max_step must be positive; try 1"
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
        if not self.slack >= 0:
            raise InputError(f"LineSearch(slack={self.slack}): the slack must be 0 or more; try 4")
        if not 0 < self.tolerance < 1:
            raise InputError(
                f"LineSearch(tolerance={self.tolerance}): the relative tolerance must lie in (0, 1)"
            )

    def _check_together(self) -> None:
        if not self.reference.relaxes and not isinstance(self.condition, Armijo):
            reference = type(self.reference).__name__
            condition = type(self.condition).__name__
            raise InputError(
                f"LineSearch: {reference} with {condition}: this reference changes the slope; "
                "use Armijo"
            )
        if not isfinite(self.max_step) and (self.start is None or self.largest):
            raise InputError(
                "LineSearch(max_step=inf): give a finite start, and leave `largest` off"
            )
        if self.carry and self.share:
            raise InputError(
                "LineSearch(carry=True, share=True): begin with the client's own last step, "
                "or the cohort's"
            )

    def init(self, x: Vec) -> NewState:
        state = SearchState(
            step=x.new_full(x.shape[:-1], self._start()),
            reset=self.reset.init(x),
            reference=self.reference.init(x),
            cadence=self.cadence.init(x),
        )
        return state.flat()

    def shared_init(self, x: Vec) -> NewState:
        if not self.share:
            return {}
        return {"start": x.new_tensor(self._start())}

    def begin(
        self,
        x: Vec,
        shared: State,
        memory: State,
    ) -> NewState:
        state = super().begin(x, shared, memory)
        if self.share:
            state["step"] = shared["start"].expand(x.shape[:-1]).to(x)
        return state

    def message(self, state: State) -> NewState:
        if not self.share:
            return {}
        return {"log": state["step"].log()}

    def message_kinds(self) -> dict[str, MessageKind]:
        return {"log": Logarithm()}

    def fold(
        self,
        shared: State,
        message: State,
        agg: Aggregate,
    ) -> NewState:
        if not self.share:
            return {}
        geometric_mean = agg.mean(message["log"]).exp()
        return {"start": geometric_mean.clamp(max=self.max_step)}

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        before = SearchState.of(state)
        start = torch.full_like(f, self._start())
        slope = phi.slope(g, d)
        begin = SearchStart(
            f=f,
            slope=slope,
            last=before.step,
            start=start,
            share=phi.share,
            shrink=self.shrink,
        )
        first = self._first_trial(begin, before.reset)

        usable = torch.isfinite(f) & torch.isfinite(slope)
        stationary = phi.norm_sq(g) < ZERO_GRADIENT**2
        still = usable & (stationary | (first == 0))
        # never along a direction that is not one of finite descent
        ready = usable & ~still & (slope < 0)
        due, cadence = self.cadence(slope, before.cadence)
        searching = ready & due
        untested = ready & ~due

        line, reference = self.reference(f, slope, before.reference)
        trial = Trial.first(begin, line, first, self.slack)
        loop = TrialLoop(
            self,
            phi.along(x, d),
            trial,
            searching,
        ).run()
        failed = ~still & ~untested & (loop.step == 0)
        fallback = self.failure(
            FailedSearch(
                tried=loop.tried,
                following=loop.following,
                short=loop.short,
                start=start,
            )
        )
        step = torch.where(failed & searching, fallback.step, loop.step)

        # a failed search must not shrink the next guess: one NaN batch would freeze the client
        restart = torch.where(searching, fallback.remembered, start)
        remembered = torch.where(failed, restart, step)
        remembered = torch.where(still, first, remembered)
        remembered = torch.where(untested | (still & (first == 0)), before.step, remembered)

        reference = where_chosen(due, reference, before.reference)
        after = SearchState(
            step=remembered,
            reset=self._reset_after(loop, trial, searching, before.reset),
            reference=where_chosen(
                loop.step > 0,
                self.reference.after(f - loop.value, reference),
                reference,
            ),
            cadence=where_chosen(searching, self.cadence.after(step, cadence), cadence),
        )
        outcome = Outcome(
            step=torch.where(untested, first, step),
            trials=loop.trials,
            failed=failed,
            slopes=loop.slopes,
        )
        return outcome, after.flat()

    def _start(self) -> float:
        if self.start is None:
            return self.max_step
        return self.start

    def _first_trial(
        self,
        begin: SearchStart,
        state: State,
    ) -> Scalar:
        if self.largest:
            return begin.start
        return self.reset(begin, state).clamp(max=self.max_step)

    def _reset_after(
        self,
        loop: LoopResult,
        trial: Trial,
        searching: Tensor,
        state: State,
    ) -> NewState:
        change = loop.value - trial.f
        result = SearchResult(
            trials=loop.trials,
            step=loop.step,
            quotient=change / (loop.step * trial.slope),
            null=change.abs() <= trial.noise,
        )
        return where_chosen(searching, self.reset.after(result, state), state)
