"""The one loop over batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.types import Batch, Context, Output
from fedstep.core.vec import State, Vec, prefixed, put, scale, take, under
from fedstep.local.directions import Direction, Steepest
from fedstep.local.moves import Move, Straight
from fedstep.local.objective import Objective, Work
from fedstep.local.oracles import Autograd, Oracle
from fedstep.local.terms import Term
from fedstep.local.trace import Trace
from fedstep.steps.rule import Outcome, StepRule


class Companion(Protocol):
    """What a correction adds to every local step."""

    @property
    def forwards(self) -> int:
        """Forward passes that `prepare` makes."""
        ...

    @property
    def backwards(self) -> int: ...
    def terms(self) -> tuple[Term, ...]: ...
    def prepare(self, ctx: Context, batch: Batch) -> dict[str, Tensor]:
        """What the terms find in the client's memory during this step, trials included."""
        ...

    def tally(self, x: Vec) -> dict[str, Tensor]:
        """Zeros, for what is summed over the local steps and sent."""
        ...

    def count(self, out: Output, batch: Batch) -> dict[str, Tensor]:
        """What one step adds to the tally, given the model's output before it."""
        ...


@dataclass(frozen=True)
class LocalSolver:
    """x <- x + eta d for every batch, with phi, g, d and eta from the slots, and the move if it is not that."""

    step: StepRule
    direction: Direction = Steepest()
    oracle: Oracle = Autograd()
    terms: tuple[Term, ...] = ()
    move: Move = Straight()
    intrinsic: ClassVar[bool] = (
        True  # uses vectors through its parts only, so that any coordinates serve where they do
    )

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        """What the step rule wants to find again in the client's next round."""
        return prefixed("step.", self.step.init(x)) if self.step.carry else {}

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        """What step rule and move want every client to know."""
        return prefixed("step.", self.step.shared_init(x)) | prefixed(
            "move.", self.move.shared_init(x)
        )

    def fold(self, shared: State, agg: Aggregate) -> dict[str, Tensor]:
        """What every client is to know in the next round."""
        step = self.step.fold(under("step.", shared), under("step.", agg.message), agg)
        move = self.move.fold(under("move.", shared), under("move.", agg.message), agg)
        return prefixed("step.", step) | prefixed("move.", move)

    def passes(
        self, batches: Iterable[tuple[Batch, Tensor | None]], x: Vec
    ) -> Iterable[tuple[Batch, Tensor | None]]:
        """What to take a step on, one after another, given the round's batches: each of them once."""
        return batches

    def __call__(
        self,
        ctx: Context,
        x: Vec,
        batches: Iterable[tuple[Batch, Tensor | None]],
        companion: Companion,
    ) -> tuple[Vec, Trace, dict[str, Tensor], dict[str, Tensor]]:
        """Run through (batch, live rows) pairs; None: all rows are live.

        Returns x, the trace, what to remember and what to tell the server.
        """
        terms, tally, work = self.terms + companion.terms(), companion.tally(x), Work()
        heard, kept = under("step.", ctx.shared), under("step.", ctx.memory)
        state = prefixed("step.", self.step.begin(x, heard, kept))
        state |= prefixed("direction.", self.direction.init(x))
        # statistics that the server sends take the place of a direction's first state
        state |= {
            name: v.expand_as(state[name])
            for name, v in ctx.shared.items()
            if name.startswith("direction.")
        }
        state |= prefixed("move.", self.move.begin(x, under("move.", ctx.shared)))
        columns: list[tuple[Tensor, ...]] = []
        for batch, rows in self.passes(batches, x):
            own = ctx if rows is None else ctx.rows(rows)
            phi = Objective(
                replace(own, memory={**own.memory, **companion.prepare(own, batch)}),
                batch,
                terms,
                work,
            )
            if rows is None:
                x, state, column = self._step(phi, x, state)
            else:
                part, new, short = self._step(phi, x[rows], take(state, rows))
                x, state = x.index_copy(0, rows, part), put(state, rows, new)
                column = tuple(c.new_zeros(x.shape[:-1]).index_copy(0, rows, c) for c in short)
            columns.append(column)
            for name, value in companion.count(phi.output, batch).items() if tally else ():
                tally[name] = (
                    tally[name] + value if rows is None else tally[name].index_add(0, rows, value)
                )
        last = under("step.", state)
        remembered = prefixed("step.", last) if self.step.carry else {}
        trace = self._trace(x, columns, work)
        passes = trace.forwards + companion.forwards, trace.backwards + companion.backwards
        told = {**tally, **prefixed("step.", self.step.message(last))}
        told |= prefixed("move.", self.move.message(under("move.", state)))
        return x, replace(trace, forwards=passes[0], backwards=passes[1]), remembered, told

    def gradient(
        self, ctx: Context, x: Vec, batches: Iterable[tuple[Batch, Tensor | None]]
    ) -> tuple[Vec, Trace]:
        """The gradient of the client's own loss over all its batches, each counting by its share of the samples."""
        total, columns = torch.zeros_like(x), list[tuple[Tensor, ...]]()
        for batch, rows in batches:
            phi = Objective(ctx if rows is None else ctx.rows(rows), batch)
            f, g = self.oracle(phi, x if rows is None else x[rows])
            column, part = _column(f, Outcome.free(torch.zeros_like(f))), scale(batch.share, g)
            if rows is not None:
                column = tuple(c.new_zeros(x.shape[:-1]).index_copy(0, rows, c) for c in column)
            total = total + part if rows is None else total.index_add(0, rows, part)
            columns.append(column)
        return total, self._trace(x, columns, Work())

    def _step(
        self, phi: Objective, x: Vec, state: State
    ) -> tuple[Vec, dict[str, Tensor], tuple[Tensor, ...]]:
        move, direction = under("move.", state), under("direction.", state)
        view = self.move.view(x, phi.batch.seed, move)
        f, g = self.oracle(phi, view)
        d, direction = self.direction.apply(-g, view, direction)
        out, step = self.step.search(phi, view, f, g, d, under("step.", state))

        def look(elsewhere: Vec) -> Vec:
            phi.work.add(f.numel(), self.oracle.forwards, self.oracle.backwards)
            return self.oracle(phi, elsewhere)[1]

        x, move = self.move(x, out.step, self.direction.travel(d, direction), look, move)
        after = (
            prefixed("step.", step) | prefixed("direction.", direction) | prefixed("move.", move)
        )
        return x, after, _column(f, out)

    def _trace(self, x: Vec, columns: list[tuple[Tensor, ...]], work: Work) -> Trace:
        shape = x.shape[:-1]
        kinds = (torch.bool, x.dtype, x.dtype, torch.int64, torch.bool, torch.int64)
        parts = [
            torch.stack([c[i] for c in columns], -1)
            if columns
            else torch.zeros(*shape, 0, dtype=kind)
            for i, kind in enumerate(kinds)
        ]
        live, losses, sizes, trials, failed, slopes = parts
        once = (self.oracle.forwards, self.oracle.backwards)
        return Trace(
            live, losses, sizes, trials, failed, *once, slopes, work.forwards, work.backwards
        )


def _column(f: Tensor, out: Outcome) -> tuple[Tensor, ...]:
    slopes = torch.zeros_like(out.trials) if out.slopes is None else out.slopes
    return torch.ones_like(f, dtype=torch.bool), f, out.step, out.trials, out.failed, slopes
