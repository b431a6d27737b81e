"""Clients that agree on a direction by one pass of ADMM a round."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context, Output
from fedstep.core.vec import NewState, Scalar, State, Vec, dot, norm_sq, scale
from fedstep.corrections.base import Correction, Finished
from fedstep.local.terms import Term
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Agreement(Term):
    """rho / 2 * |x - anchor + y|^2 - <l_i, x>: the augmented Lagrangian of y_i = y."""

    rho: float

    def __call__(
        self,
        x: Vec,
        out: Output,
        batch: Batch,
        ctx: Context,
    ) -> Scalar:
        gap = x - ctx.anchor + ctx.shared.correction["y"]
        return self.rho / 2 * norm_sq(gap) - dot(dual_vector(self.rho, ctx), x)


def dual_vector(rho: float, ctx: Context) -> Vec:
    """l_i + rho (y_i - y), 0 at first.

    y_i is of the client's last round, whose outcome y it learns with the next model.
    """
    memory = ctx.memory.correction
    gap = memory["own"] - ctx.shared.correction["y"]
    # "met" is 0 before the first round: then there is no y_i to compare with y
    return memory["dual"] + scale(rho * memory["met"], gap)


@dataclass(frozen=True)
class Consensus(Correction):
    """A dual vector on every client pulls its step y_i to the mean y (FedNew; Elgabli et al. 2022).

        phi = f_i(x) + rho/2 |x - x_t + y|^2 - <l_i, x>;  y_i = x_t - x
        y <- mean y_i;  l_i <- l_i + rho (y_i - y)

    The paper has all clients in every round. A client that was away updates l_i with the y of the
    last round, not of its own.
    """

    rho: float = 0.1  # 0: every client takes its own Newton step

    def __post_init__(self) -> None:
        if not self.rho >= 0:
            raise InputError(f"Consensus(rho={self.rho}): rho must be 0 or more")

    def terms(self) -> tuple[Term, ...]:
        return (Agreement(self.rho),)

    def shared_init(self, x: Vec) -> NewState:
        return {"y": torch.zeros_like(x)}

    def memory_init(self, x: Vec) -> NewState:
        return {
            "dual": torch.zeros_like(x),
            "own": torch.zeros_like(x),
            "met": x.new_zeros(()),
        }

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        delta = x - ctx.anchor
        memory = {
            "dual": dual_vector(self.rho, ctx),
            "own": -delta,
            "met": torch.ones_like(ctx.memory.correction["met"]),
        }
        return Finished(delta, memory)

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        # y is shared as minus the mean delta, in the paper's sign
        d = agg.mean(agg.delta)
        return d, {**shared, "y": -d}
