"""The one loop over batches."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.exchange import ClientMessage, SharedState
from fedstep.core.message_kinds import MessageKind
from fedstep.core.slots import check_slots
from fedstep.core.types import Batch, Context, Forward, LiveBatch
from fedstep.core.vec import NewState, Scalar, State, Vec, scale
from fedstep.local.companion import Companion
from fedstep.local.directions import Direction, Steepest
from fedstep.local.moves import Move, Straight
from fedstep.local.objective import Objective, Work
from fedstep.local.oracles import Autograd, Oracle
from fedstep.local.progress import LocalRun, LocalStep, SolverState
from fedstep.local.tally import added
from fedstep.local.terms import Term, check_terms
from fedstep.local.trace import StepRecord, Trace
from fedstep.steps.rule import Outcome, StepRule


@dataclass(frozen=True)
class LocalSolver(ABC):
    """x <- x + eta d for every batch.

    phi, g, d and eta come from the slots, and the move applies the step if it is not that.
    """

    step: StepRule
    direction: Direction = Steepest()
    oracle: Oracle = Autograd()
    terms: tuple[Term, ...] = ()
    move: Move = Straight()

    # Uses vectors through its parts only, so that any coordinates serve where they do.
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_slots(
            self,
            step=StepRule,
            direction=Direction,
            oracle=Oracle,
            move=Move,
        )
        check_terms(type(self).__name__, self.terms)

    def suited(self, model: Forward) -> Self:
        """The solver for this model."""
        return replace(
            self,
            step=self.step.suited(model.shapes),
            direction=self.direction.suited(model.shapes),
            move=self.move.suited(model.shapes),
        )

    def memory_init(self, x: Vec) -> NewState:
        """What the step rule wants to find again in the client's next round."""
        if not self.step.carry:
            return {}
        return self.step.init(x)

    def shared_init(self, x: Vec, correction: State) -> SharedState:
        """What the parts want every client to know, beside what the correction does."""
        return SharedState(
            correction=correction,
            step=self.step.shared_init(x),
            direction=self.direction.shared_init(x),
            move=self.move.shared_init(x),
        )

    def sent(self, shared: SharedState) -> SharedState:
        """What of it goes down the wire."""
        return replace(
            shared,
            step=self.step.sent(shared.step),
            direction=self.direction.sent(shared.direction),
            move=self.move.sent(shared.move),
        )

    def message_kinds(self) -> dict[str, MessageKind]:
        """What of a client's message a guard must not measure by its length."""
        parts = {"step": self.step, "direction": self.direction, "move": self.move}
        kinds = {}
        for owner, each in parts.items():
            for name, kind in each.message_kinds().items():
                kinds[f"{owner}.{name}"] = kind.under(owner)
        return kinds

    def received(
        self,
        message: ClientMessage,
        shared: SharedState,
    ) -> ClientMessage:
        """What a client's parts say, within the bounds of an honest one."""
        return replace(
            message,
            step=self.step.received(message.step, shared.step),
            direction=self.direction.received(message.direction, shared.direction),
            move=self.move.received(message.move, shared.move),
        )

    def fold(
        self,
        shared: SharedState,
        message: ClientMessage,
        agg: Aggregate,
    ) -> SharedState:
        """What every client is to know of step rule, direction and move in the next round."""
        # a part that has nothing new may answer with nothing: what was shared stays
        step = self.step.fold(shared.step, message.step, agg)
        direction = self.direction.fold(shared.direction, message.direction, agg)
        move = self.move.fold(shared.move, message.move, agg)
        return replace(
            shared,
            step={**shared.step, **step},
            direction={**shared.direction, **direction},
            move={**shared.move, **move},
        )

    def passes(self, batches: Iterable[LiveBatch], x: Vec) -> Iterable[LiveBatch]:
        """What to take a step on, one after another: each of the round's batches once."""
        return batches

    def __call__(
        self,
        ctx: Context,
        x: Vec,
        batches: Iterable[LiveBatch],
        companion: Companion,
    ) -> LocalRun:
        """Run through the round's batches, beginning at x."""
        # drift corrections are terms of the function, so that a search tests what it descends
        terms = self.terms + companion.terms()
        extra = Work()
        tally = companion.tally(x)
        state = self._begin(ctx, x, companion)
        records = []

        for batch, rows in self.passes(batches, x):
            phi = _objective(ctx, batch, rows, companion, terms, extra)
            if rows is None:
                step = done = self._step(phi, x, state, counted=bool(tally))
            else:
                # clients whose batches are used up leave the block: their rows are not evaluated
                step = self._step(phi, x[rows], state.take(rows), counted=bool(tally))
                done = step.placed(rows, x, state)
            x = done.x
            state = done.state
            records.append(done.record)
            # a step that nobody takes any more has made no pass, and phi has no output to count
            if step.gradient is not None and bool(step.record.live.any()):
                counts = companion.count(phi.output, batch)
                gradients = companion.count_gradient(step.gradient, phi.ctx)
                tally = added(tally, step.record.live, {**counts, **gradients}, rows)
            # a gradient is as large as the model: it goes before the next one comes
            del step, done

        trace = Trace.of(
            records,
            x,
            forwards=self.oracle.forwards + companion.forwards,
            backwards=self.oracle.backwards + companion.backwards,
        )
        return LocalRun(
            x=x,
            trace=replace(
                trace,
                more_forwards=extra.forwards,
                more_backwards=extra.backwards,
            ),
            step_memory=self._to_remember(state),
            message=ClientMessage(
                correction=tally,
                step=self.step.message(state.step),
                direction=self.direction.message(state.direction),
                move=self.move.message(state.move),
            ),
        )

    def gradient(self, ctx: Context, x: Vec, batches: Iterable[LiveBatch]) -> tuple[Vec, Trace]:
        """The gradient of the client's loss over all its batches.

        Each batch counts by its share of the samples.
        """
        total = torch.zeros_like(x)
        records = []
        for batch, rows in batches:
            if rows is None:
                f, g = self.oracle(Objective(ctx, batch), x)
                total = total + scale(batch.share, g)
                records.append(_without_step(f))
            else:
                f, g = self.oracle(Objective(ctx.rows(rows), batch), x[rows])
                # clients whose batches are used up get no more of the sum
                total = total.index_add(0, rows, scale(batch.share, g))
                records.append(_without_step(f).of_rows(rows, len(x)))
        trace = Trace.of(
            records,
            x,
            forwards=self.oracle.forwards,
            backwards=self.oracle.backwards,
        )
        return total, trace

    def search(
        self, phi: Objective, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, NewState]:
        """How far to go along d; a solver may let its step rule search on other values."""
        return self.step.search(phi, x, f, g, d, state)

    def _to_remember(self, state: SolverState) -> State:
        # without carry every round begins afresh, and clients need no store
        if not self.step.carry:
            return {}
        return state.step

    def _begin(self, ctx: Context, x: Vec, companion: Companion) -> SolverState:
        """The state before the first local step of a round."""
        # a correction that keeps the server's statistics may steer the direction, too
        sent_for_direction = {
            **companion.steer(ctx.shared.correction),
            **ctx.shared.direction,
        }
        return SolverState(
            step=self.step.begin(x, ctx.shared.step, ctx.memory.step),
            direction=self.direction.begin(x, sent_for_direction),
            move=self.move.begin(x, ctx.shared.move),
        )

    def _step(self, phi: Objective, x: Vec, state: SolverState, counted: bool) -> LocalStep:
        """One local step: phi -> (f, g) -> d -> eta -> x + eta d.

        counted: whether the companion will be told the gradient.
        """
        # a move may look the gradient up elsewhere than where it stands (stale reads)
        view = self.move.view(x, phi.batch.seed, state.move)
        f, g = self.oracle(phi, view)
        d, direction = self.direction.downhill(g, view, state.direction)
        outcome, step = self.search(phi, view, f, g, d, state.step)
        gradient = g if counted else None
        del g  # as large as the model, and the move is about to make another such vector

        def look(elsewhere: Vec) -> Vec:
            phi.work.add(f.numel(), self.oracle.forwards, self.oracle.backwards)
            return self.oracle(phi, elsewhere)[1]

        # the step is searched for along d; a preconditioned momentum then goes another way
        way = self.direction.travel(d, direction)
        x, move = self.move(x, outcome.step, way, look, state.move)
        return LocalStep(
            x=x,
            state=SolverState(
                step=step,
                direction=direction,
                move=move,
            ),
            record=StepRecord.of(f, outcome),
            gradient=gradient,
        )


def _objective(
    ctx: Context,
    batch: Batch,
    rows: Tensor | None,
    companion: Companion,
    terms: tuple[Term, ...],
    extra: Work,
) -> Objective:
    """phi on one batch, for all clients of the block or for those rows that have the batch."""
    if rows is not None:
        ctx = ctx.rows(rows)
    # prepared once a step: f, g and every trial are to see the same values
    values = companion.prepare(ctx, batch)
    return Objective(ctx.prepared(values), batch, terms, extra)


def _without_step(loss: Tensor) -> StepRecord:
    return StepRecord.of(loss, Outcome.free(torch.zeros_like(loss)))
