"""One step for all clients of a round, measured by the cohort before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.looks import surely_none
from fedstep.core.message_kinds import MessageKind
from fedstep.core.nested import join, part
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, Scalar, State, Vec, norm_sq
from fedstep.steps.cadence import Cadence, Steeper
from fedstep.steps.conditions import Armijo
from fedstep.steps.overshoot import Overshoot
from fedstep.steps.pace import Pace
from fedstep.steps.proposals import Parabola
from fedstep.steps.resets import Fitted
from fedstep.steps.rule import Outcome, Phi, StepRule
from fedstep.steps.search import ZERO_GRADIENT, LineSearch
from fedstep.steps.search_state import CommonState, where_chosen
from fedstep.steps.step_claims import KINDS, bounded_claim
from fedstep.steps.trial import ReferenceLine, SearchResult, SearchStart, Trial, aimed
from fedstep.steps.trial_loop import LoopResult, TrialLoop

TRIALS = 20  # at most; a refused one shortens the step by a factor of 0.1 to 0.9


@dataclass(frozen=True)
class CommonStep(StepRule):
    """Every client tries the cohort's step; Armijo shortens it where it does not hold.

        first trial: min(Fitted's guess, T), T itself in a client's first step
        step taken = s * accepted step
        limit = eta (1 - aim) / (1 - mu), at most grow * eta,  mu = (f(x + eta d) - f(x)) / (eta <g, d>)
        a client reports l_i = -log of the mean over its searches of 1 / limit, weighted by |<g, d>|
        T <- exp(mean l_i), but at most `rise` T unless it is above `far` T, and never above grow T

    A client with easy data accepts steps a hundred times longer than the others', and its delta
    would drown theirs: so nobody goes beyond T. 1 / limit is a curvature, so a client reports the
    step that its mean curvature allows: steps on batches that are fitted already, whose losses are
    flat, have short gradients and weigh little. Between clients the mean is geometric: one with
    steep data, or one search in the rounding of large logits, does not stop all the others.

    Steps that are too long kill units, which makes the loss flatter and the next T longer: near the
    edge T rises slowly. Only where nearly all limits say that the edge is far, it doubles.

    The first round has no T. A client begins with first * f / |<g, d>|, a hundredth of Polyak's
    step, and approaches its limit from below, by `grow` a step at most and without going further in
    one step than reach * |x_0|: a network is flat where it begins, and a long step there kills it.
    What the climb has reached counts, not its way.

    A change of the loss within rounding is no evidence: the step was too short and the next guess
    grows. After a refused trial it is a failure: the loss itself is too noisy there to be searched
    (large logits), and a step of 1e-20 would be reported as the edge.

    Between two searches, which the `cadence` spaces, the first trial is taken untested; in the
    first round every step is searched for. s is the factor of the `pace`, for which clients report
    their `overshoot`. Three numbers are sent down and four up, all of them in sums.
    """

    aim: float = 0.3
    c: float = 1e-4
    grow: float = 2.0
    first: float = 0.01
    reach: float = 0.1
    rise: float = 1.05
    far: float = 1.7
    pace: Pace = Pace()
    cadence: Cadence = Steeper()
    overshoot: Overshoot = Overshoot()
    withheld = frozenset(f"pace.{name}" for name in Pace.withheld)

    def __post_init__(self) -> None:
        check_slots(self, pace=Pace, cadence=Cadence, overshoot=Overshoot)
        Armijo(self.c)
        Fitted(self.aim, self.grow)
        if not self.c < self.aim:
            raise InputError(f"CommonStep(aim={self.aim}, c={self.c}): aim must be above c")
        if not self.first > 0:
            raise InputError(f"CommonStep(first={self.first}): it must be positive; try 0.01")
        if not 1 <= self.rise <= self.far <= self.grow:
            raise InputError(
                f"CommonStep(rise={self.rise}, far={self.far}, grow={self.grow}): "
                "needs 1 <= rise <= far <= grow"
            )
        if not self.reach > 0:
            raise InputError(f"CommonStep(reach={self.reach}): it must be positive; try 0.1")

    def init(self, x: Vec) -> NewState:
        zero = x.new_zeros(x.shape[:-1])
        state = CommonState(
            common=zero,
            factor=torch.ones_like(zero),
            reach=torch.full_like(zero, inf),
            last=zero,
            guess=self._fitted.init(x),
            promised=zero,
            bent=zero,
            cadence=self.cadence.init(x),
            path=self.overshoot.init(x),
        )
        return state.flat()

    def shared_init(self, x: Vec) -> NewState:
        size = norm_sq(x).sqrt()
        # A model that begins at 0 has no size to compare a step with.
        reach = torch.where(size > 0, self.reach * size, inf)
        common = x.new_zeros(())
        return join(common=common, reach=reach, pace=self.pace.init(x))

    def begin(
        self,
        x: Vec,
        shared: State,
        memory: State,
    ) -> NewState:
        state = self.init(x)
        clients = x.shape[:-1]
        state["common"] = shared["common"].expand(clients).to(x)
        state["reach"] = shared["reach"].expand(clients).to(x)
        state["factor"] = shared["pace.factor"].expand(clients).to(x)
        return state

    def factor_sent(self, shared: State) -> Scalar | None:
        return shared["pace.factor"]

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        before = CommonState.of(state)
        path = self.overshoot.seen(x, g, before.path)
        slope = phi.slope(g, d)
        begin = self._begin(phi, f, slope, before)
        longest = self._longest(phi, d, before)
        first = torch.minimum(self._fitted(begin, before.guess), longest)

        sound = torch.isfinite(f) & torch.isfinite(slope)
        # without a slope there is no first trial either, and nothing to search for
        still = sound & ((slope.abs() < ZERO_GRADIENT**2) | (first == 0))
        ready = sound & ~still & (slope < 0) & torch.isfinite(first)
        due, cadence = self.cadence(slope, before.cadence)
        searching = ready & (due | (before.common == 0))
        untested = ready & ~searching
        # against f itself: T is a step of descent, not one that a reference has relaxed
        line = ReferenceLine(f, slope)
        trial = Trial.first(begin, line, first, self._line.slack)
        loop = TrialLoop(
            self._line,
            phi.along(x, d),
            trial,
            searching,
        ).run()
        flat = (loop.value - f).abs() <= trial.noise
        accepted = (loop.step > 0) & ~(flat & (loop.trials > 1))

        taken = torch.where(untested, first, torch.where(accepted, loop.step, 0.0))
        outcome = Outcome(
            step=before.factor * taken,
            trials=loop.trials,
            failed=~still & ~untested & ~accepted,
        )
        kept = where_chosen(searching, self.cadence.after(taken, cadence), cadence)
        path = self.overshoot.moved(outcome.step, path)
        after = self._after(before, loop, trial, accepted)
        return outcome, replace(after, cadence=kept, path=path).flat()

    def message(self, state: State) -> NewState:
        end = CommonState.of(state)
        counted = (end.promised > 0) & (end.bent > 0)
        curvature = end.bent / torch.where(counted, end.promised, 1.0)
        limit = -torch.where(counted, curvature, 1.0).log()
        # in the first round the last guess stands for all steps: those before were on the way up
        climbed = counted & (end.common == 0)
        limit = torch.where(climbed, end.guess["log"], limit)
        return join(
            log=torch.where(counted, limit, 0.0),
            counted=counted.to(limit.dtype),
            overshoot=self.overshoot.message(end.path),
        )

    def message_kinds(self) -> dict[str, MessageKind]:
        return dict(KINDS)

    def received(
        self,
        message: State,
        shared: State,
    ) -> State:
        overshoot = self.overshoot.received(part(message, "overshoot"))
        claim = bounded_claim(message, shared["common"], self.grow)
        return join(**claim, overshoot=overshoot)

    def fold(
        self,
        shared: State,
        message: State,
        agg: Aggregate,
    ) -> NewState:
        below = torch.where(message["counted"] > 0, message["counted"], 1.0)
        found = (message["log"] / below).exp()
        evidence = (message["counted"] > 0) & (found > 0) & torch.isfinite(found)
        measured = torch.where(evidence, found, shared["common"])
        common = self._next_common(shared["common"], measured)
        pace = self.pace.after(
            agg.mean(agg.delta),
            self.overshoot.mean(part(message, "overshoot")),
            common,
            part(shared, "pace"),
        )
        return join(common=common, reach=shared["reach"], pace=pace)

    def _next_common(self, common: Scalar, measured: Scalar) -> Scalar:
        far = measured > self.far * common
        longest = torch.where(far, self.grow * common, self.rise * common)
        bounded = torch.minimum(measured, longest)
        return torch.where(common > 0, bounded, measured)

    # Parts are made once a rule: making and checking them at every step would cost more than the step.
    @cached_property
    def _fitted(self) -> Fitted:
        return Fitted(self.aim, self.grow)

    @cached_property
    def _line(self) -> LineSearch:
        return LineSearch(
            condition=Armijo(self.c),
            max_step=inf,
            start=1.0,
            trials=TRIALS,
            proposal=Parabola(),
        )

    def _begin(
        self,
        phi: Phi,
        f: Scalar,
        slope: Scalar,
        before: CommonState,
    ) -> SearchStart:
        """Where the search begins; before a client's first accepted step `last` is its start."""
        careful = self.first * f.abs() / slope.abs()
        start = torch.where(before.common > 0, before.common, careful)
        return SearchStart(
            f=f,
            slope=slope,
            last=torch.where(before.last > 0, before.last, start),
            start=start,
            share=phi.share,
            shrink=self._line.shrink,
        )

    def _longest(self, phi: Phi, d: Vec, before: CommonState) -> Scalar:
        # only the first round has to know how long the direction is
        if surely_none(~(before.common > 0)):
            return before.common
        length = phi.norm_sq(d).sqrt()
        return torch.where(before.common > 0, before.common, before.reach / length)

    def _after(
        self,
        before: CommonState,
        loop: LoopResult,
        trial: Trial,
        accepted: Tensor,
    ) -> CommonState:
        """The state for the next step; a client without an accepted step keeps what it knew."""
        change = loop.value - trial.f
        result = SearchResult(
            trials=loop.trials,
            step=loop.step,
            quotient=change / (loop.step * trial.slope),
            null=change.abs() <= trial.noise,
        )
        longest = self.grow * loop.step
        limit = torch.minimum(aimed(loop.step, result.quotient, self.aim), longest)
        limit = torch.where(result.null, longest, limit)
        promised = trial.slope.abs()
        guess = self._fitted.after(result, before.guess)
        return replace(
            before,
            last=torch.where(accepted, loop.step, before.last),
            guess={"log": torch.where(accepted, guess["log"], before.guess["log"])},
            promised=torch.where(accepted, before.promised + promised, before.promised),
            bent=torch.where(accepted, before.bent + promised / limit, before.bent),
        )
