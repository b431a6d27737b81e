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
from fedstep.local.objective import Objective
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
    """x <- x + eta d for every batch, with phi, g, d and eta from the slots."""

    step: StepRule
    direction: Direction = Steepest()
    oracle: Oracle = Autograd()
    terms: tuple[Term, ...] = ()
    intrinsic: ClassVar[bool] = True  # uses vectors through its parts only, so that any coordinates serve where they do

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        """What the step rule wants to find again in the client's next round."""
        return prefixed("step.", self.step.init(x)) if self.step.carry else {}

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        """What the step rule wants every client to know."""
        return prefixed("step.", self.step.shared_init(x))

    def fold(self, shared: State, agg: Aggregate) -> dict[str, Tensor]:
        """What every client is to know in the next round."""
        message = under("step.", agg.message)
        return prefixed("step.", self.step.fold(under("step.", shared), message, agg))

    def passes(self, batches: Iterable[tuple[Batch, Tensor | None]], x: Vec) -> Iterable[tuple[Batch, Tensor | None]]:
        """What to take a step on, one after another, given the round's batches: each of them once."""
        return batches

    def __call__(
        self, ctx: Context, x: Vec, batches: Iterable[tuple[Batch, Tensor | None]], companion: Companion
    ) -> tuple[Vec, Trace, dict[str, Tensor], dict[str, Tensor]]:
        """Run through (batch, live rows) pairs; None: all rows are live.

        Returns x, the trace, what to remember and what to tell the server.
        """
        terms, tally = self.terms + companion.terms(), companion.tally(x)
        told, kept = under("step.", ctx.shared), under("step.", ctx.memory)
        state = prefixed("step.", self.step.begin(x, told, kept))
        state |= prefixed("direction.", self.direction.init(x))
        # statistics that the server sends take the place of a direction's first state
        state |= {name: v.expand_as(state[name]) for name, v in ctx.shared.items() if name.startswith("direction.")}
        columns: list[tuple[Tensor, ...]] = []
        for batch, rows in self.passes(batches, x):
            own = ctx if rows is None else ctx.rows(rows)
            phi = Objective(replace(own, memory={**own.memory, **companion.prepare(own, batch)}), batch, terms)
            if rows is None:
                x, state, column = self._step(phi, x, state)
            else:
                part, new, short = self._step(phi, x[rows], take(state, rows))
                x, state = x.index_copy(0, rows, part), put(state, rows, new)
                column = tuple(c.new_zeros(x.shape[:-1]).index_copy(0, rows, c) for c in short)
            columns.append(column)
            for name, value in companion.count(phi.output, batch).items() if tally else ():
                tally[name] = tally[name] + value if rows is None else tally[name].index_add(0, rows, value)
        last = under("step.", state)
        remembered = prefixed("step.", last) if self.step.carry else {}
        trace = self._trace(x, columns)
        passes = trace.forwards + companion.forwards, trace.backwards + companion.backwards
        told = {**tally, **prefixed("step.", self.step.message(last))}
        return x, replace(trace, forwards=passes[0], backwards=passes[1]), remembered, told

    def gradient(self, ctx: Context, x: Vec, batches: Iterable[tuple[Batch, Tensor | None]]) -> tuple[Vec, Trace]:
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
        return total, self._trace(x, columns)

    def _step(self, phi: Objective, x: Vec, state: State) -> tuple[Vec, dict[str, Tensor], tuple[Tensor, ...]]:
        f, g = self.oracle(phi, x)
        d, direction = self.direction.apply(-g, x, under("direction.", state))
        out, step = self.step.search(phi, x, f, g, d, under("step.", state))
        moved, still = scale(out.step, d).add_(x), out.step == 0
        # where, not the product alone: 0 * NaN would spoil a client whose search was refused
        x = torch.where(still.unsqueeze(-1), x, moved) if bool(still.any()) else moved
        after = prefixed("step.", step) | prefixed("direction.", direction)
        return x, after, _column(f, out)

    def _trace(self, x: Vec, columns: list[tuple[Tensor, ...]]) -> Trace:
        shape = x.shape[:-1]
        kinds = (torch.bool, x.dtype, x.dtype, torch.int64, torch.bool, torch.int64)
        parts = [
            torch.stack([c[i] for c in columns], -1) if columns else torch.zeros(*shape, 0, dtype=kind)
            for i, kind in enumerate(kinds)
        ]
        live, losses, sizes, trials, failed, slopes = parts
        return Trace(live, losses, sizes, trials, failed, self.oracle.forwards, self.oracle.backwards, slopes)


def _column(f: Tensor, out: Outcome) -> tuple[Tensor, ...]:
    slopes = torch.zeros_like(out.trials) if out.slopes is None else out.slopes
    return torch.ones_like(f, dtype=torch.bool), f, out.step, out.trials, out.failed, slopes
