"""Dynamic regularisation: clients' optima are bent towards the common one (FedDyn)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Context
from fedstep.core.vec import NewState, Scalar, State, Vec, dot, norm_sq
from fedstep.corrections.base import Correction, Finished
from fedstep.local.terms import Linear, Proximal, Term
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Dynamic(Correction):
    """Every client remembers the gradient at which it left its function.

        client i descends f_i(x) - <h_i, x> + alpha/2 |x - x_t|^2;  h_i <- h_i - alpha delta_i
        h <- h - alpha |S|/N mean_i delta_i;  direction = mean_i delta_i - h / alpha

    A client that solves its problem exactly ends with h_i = grad f_i at its solution.
    """

    alpha: float = 0.1  # small with few local steps: the server's sum of deltas swings

    # clients have h_i of their own; h is the server's
    withheld = frozenset({"dual"})

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise InputError(
                f"Dynamic(alpha={self.alpha}): alpha must be positive; "
                "the paper tries 0.001, 0.01 and 0.1"
            )

    def terms(self) -> tuple[Term, ...]:
        return (Linear(minus="dual"), Proximal(self.alpha))

    def shared_init(self, x: Vec) -> NewState:
        return {"dual": torch.zeros_like(x)}

    def memory_init(self, x: Vec) -> NewState:
        return {"dual": torch.zeros_like(x)}

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        delta = x - ctx.anchor
        dual = ctx.memory.correction["dual"] - self.alpha * delta
        return Finished(delta, memory={"dual": dual})

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        mean = agg.mean(agg.delta)
        # h is the mean of all h_i; clients that were away have not changed theirs
        dual = shared["dual"] - self.alpha * fraction * mean
        return mean - dual / self.alpha, {**shared, "dual": dual}

    def spread(self, shared: State, agg: Aggregate) -> Scalar:
        """A client's part of the direction is delta_i - h / alpha."""
        # sum_i w_i |delta_i - shift|^2, expanded: the deltas themselves are not kept
        shift = shared["dual"] / self.alpha
        return agg.norm_sq - 2 * dot(agg.delta, shift) + agg.weight * norm_sq(shift)
