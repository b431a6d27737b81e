"""The one loop over batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.types import Batch, Context
from fedstep.core.vec import State, Vec, prefixed, put, scale, take, under
from fedstep.local.directions import Direction, Steepest
from fedstep.local.objective import Objective
from fedstep.local.oracles import Autograd, Oracle
from fedstep.local.terms import Term
from fedstep.local.trace import Trace
from fedstep.steps.rule import Outcome, StepRule


@dataclass(frozen=True)
class LocalSolver:
    """x <- x + eta d for every batch, with phi, g, d and eta from the slots."""

    step: StepRule
    direction: Direction = Steepest()
    oracle: Oracle = Autograd()
    terms: tuple[Term, ...] = ()

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        """What the step rule wants to find again in the client's next round."""
        return prefixed("step.", self.step.init(x)) if self.step.carry else {}

    def __call__(
        self, ctx: Context, x: Vec, batches: Iterable[tuple[Batch, Tensor | None]], extra: tuple[Term, ...] = ()
    ) -> tuple[Vec, Trace, dict[str, Tensor]]:
        """Run through (batch, live rows) pairs; None: all rows are live. Returns x, the trace and what to remember."""
        terms = self.terms + extra
        state = prefixed("step.", self.step.init(x))
        state |= {k: v for k, v in ctx.memory.items() if k in state}
        state |= prefixed("direction.", self.direction.init(x))
        columns: list[tuple[Tensor, ...]] = []
        for batch, rows in batches:
            if rows is None:
                x, state, column = self._step(Objective(ctx, batch, terms), x, state)
            else:
                part, new, short = self._step(Objective(ctx.rows(rows), batch, terms), x[rows], take(state, rows))
                x, state = x.index_copy(0, rows, part), put(state, rows, new)
                column = tuple(c.new_zeros(x.shape[:-1]).index_copy(0, rows, c) for c in short)
            columns.append(column)
        remembered = prefixed("step.", under("step.", state)) if self.step.carry else {}
        return x, self._trace(x, columns), remembered

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
        kinds = (torch.bool, x.dtype, x.dtype, torch.int64, torch.bool)
        parts = [
            torch.stack([c[i] for c in columns], -1) if columns else torch.zeros(*shape, 0, dtype=kind)
            for i, kind in enumerate(kinds)
        ]
        live, losses, sizes, trials, failed = parts
        return Trace(live, losses, sizes, trials, failed, self.oracle.forwards, self.oracle.backwards)


def _column(f: Tensor, out: Outcome) -> tuple[Tensor, ...]:
    return torch.ones_like(f, dtype=torch.bool), f, out.step, out.trials, out.failed
