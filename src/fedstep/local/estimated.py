"""A search whose function values come from more samples than the gradient."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedstep.core.types import Batch, LiveBatch
from fedstep.core.vec import NewState, Scalar, State, Vec
from fedstep.local.joined_batches import join_batches
from fedstep.local.objective import Objective
from fedstep.local.solver import LocalSolver
from fedstep.steps.rule import Outcome


@dataclass(frozen=True)
class EstimatedBatch(Batch):
    """A batch for the gradient, and the samples on which the search compares values."""

    values: Batch = field(kw_only=True)
    count: Tensor = field(kw_only=True)  # (...) how many batches the values cost


@dataclass(frozen=True)
class EstimatedValues(LocalSolver):
    """Search on estimates f_0, f_s of the client's loss (Paquette and Scheinberg, 2020).

        accept where f_s <= f_0 + c eta <g, d>

    g is the gradient of the batch at hand; f_0 and f_s, at x and x + eta d, are means over all
    samples of the client's round. It is the step rule's own condition, on other values. Where both
    are accurate to kappa eta^2 |g|^2, a step accepted along d = -g lowers the client's loss by
    (c - 2 kappa eta) eta |g|^2 at least: tests/theorems/test_estimated_values.py. Nothing follows
    for max_step >= c / (2 kappa), nor for one batch a round: g and values then share their samples.
    A trial costs as many forward passes as the round has batches.
    """

    def passes(self, batches: Iterable[LiveBatch], x: Vec) -> Iterable[LiveBatch]:
        every = list(batches)
        if not every:
            return
        joined = join_batches(every, x[..., 0].numel())
        for batch, rows in every:
            values: Batch = joined
            count = joined.count
            if rows is not None:
                values, count = joined.rows(rows), count[rows]
            # share and steps are those of the local step: resets and schedules count by them
            values = replace(values, share=batch.share, steps=batch.steps)
            both = EstimatedBatch(
                batch.fields, batch.share, batch.seed, batch.mask, batch.steps,
                values=values, count=count,
            )  # fmt: skip
            yield both, rows

    def search(
        self, phi: Objective, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, NewState]:
        batch = phi.batch
        assert isinstance(batch, EstimatedBatch)
        estimated = Objective(phi.ctx, batch.values, phi.terms, phi.work)
        with torch.no_grad():
            at_x = estimated(x)
        outcome, after = self.step.search(estimated, x, at_x, g, d, state)
        # one pass a trial is counted already; the estimate at x is as dear as a trial
        more = (outcome.trials + 1) * batch.count - outcome.trials
        phi.work.add(int(more.sum()), 1, 0)
        return outcome, after
