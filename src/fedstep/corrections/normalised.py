"""Updates per unit of local progress (FedNova)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Context
from fedstep.core.vec import NewState, Scalar, State, Vec, scale
from fedstep.corrections.base import Correction, Finished
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Normalised(Correction):
    """Divide every delta by its progress a_i, then multiply their mean by the mean progress.

        direction = mean_i(a_i) * mean_i(delta_i / a_i)

    a_i is how far a gradient that is always 1 would have moved the client: for plain steps the sum
    of the step sizes (K_i eta where they are constant), with the client's `momentum` and proximal
    weight `mu`
        v <- momentum * v + 1 - mu * a;  a <- a + eta_k * v.
    Both must be those of the local solver. A client that took no step counts with delta / a = 0.
    """

    momentum: float = 0.0  # that of the client's direction
    mu: float = 0.0  # that of the client's proximal term

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise InputError(
                f"Normalised(momentum={self.momentum}): must lie in [0, 1), "
                "as in the client's Momentum"
            )
        if not self.mu >= 0:
            raise InputError(
                f"Normalised(mu={self.mu}): must be 0 or more, as in the client's Proximal"
            )

    def progress(self, trace: Trace) -> Scalar:
        """a_i of every client."""
        if self.momentum == 0 and self.mu == 0:
            return trace.length
        # the client's own recursion with a gradient of 1, step by step: steps may differ
        a = torch.zeros_like(trace.length)
        v = torch.zeros_like(trace.length)
        for eta in trace.sizes.unbind(-1):
            v = self.momentum * v + 1 - self.mu * a
            a = a + eta * v
        return a

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        a = self.progress(trace)
        moved = a > 0
        # no division by 0 even where its outcome is not used
        inverse = torch.where(moved, 1 / torch.where(moved, a, 1.0), 0.0)
        return Finished(scale(inverse, x - ctx.anchor), message={"progress": a})

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        progress = agg.mean(agg.message["progress"])
        return progress * agg.mean(agg.delta), dict(shared)

    def spread(self, shared: State, agg: Aggregate) -> Scalar:
        # a client's part of the direction is its normalised delta times the mean progress
        progress = agg.mean(agg.message["progress"])
        return progress**2 * agg.norm_sq
