"""Clients that agree on a direction by one pass of ADMM a round."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context, Output
from fedstep.core.vec import Scalar, State, Vec, dot, norm_sq, scale
from fedstep.corrections.base import Correction
from fedstep.local.terms import Term
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Agreement:
    """rho / 2 * |x - anchor + y|^2 - <l_i, x>: the augmented Lagrangian of y_i = y, with y_i = anchor - x."""

    rho: float

    def __call__(self, x: Vec, out: Output, batch: Batch, ctx: Context) -> Scalar:
        return self.rho / 2 * norm_sq(x - ctx.anchor + ctx.shared["y"]) - dot(
            dual(self.rho, ctx), x
        )


def dual(rho: float, ctx: Context) -> Vec:
    """l_i + rho (y_i - y) with y_i of the client's last round, whose outcome y it hears with the next model; 0 at first."""
    return ctx.memory["dual"] + scale(rho * ctx.memory["met"], ctx.memory["own"] - ctx.shared["y"])


@dataclass(frozen=True)
class Consensus(Correction):
    """A dual vector on every client pulls its step y_i towards the mean step y (FedNew; Elgabli et al., 2022).

        phi = f_i(x) + rho/2 |x - x_t + y|^2 - <l_i, x>;  y_i = x_t - x;  y <- mean y_i;  l_i <- l_i + rho (y_i - y)

    The paper has all clients in every round. A client that was away updates l_i with the y of the last round, not of its own.
    """

    rho: float = 0.1

    def __post_init__(self) -> None:
        if not self.rho >= 0:
            raise InputError(f"Consensus(rho={self.rho}): rho must be 0 or more")

    def terms(self) -> tuple[Term, ...]:
        return (Agreement(self.rho),)

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        return {"y": torch.zeros_like(x)}

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        return {"dual": torch.zeros_like(x), "own": torch.zeros_like(x), "met": x.new_zeros(())}

    def finish(
        self, ctx: Context, x: Vec, trace: Trace
    ) -> tuple[Vec, dict[str, Tensor], dict[str, Tensor]]:
        delta = x - ctx.anchor
        met = torch.ones_like(ctx.memory["met"])
        return delta, {"dual": dual(self.rho, ctx), "own": -delta, "met": met}, {}

    def fold(self, shared: State, agg: Aggregate, fraction: float) -> tuple[Vec, dict[str, Tensor]]:
        d = agg.mean(agg.delta)
        return d, {**shared, "y": -d}
