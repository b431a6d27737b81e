"""Clients mix the last round's direction into every local step (FedCM)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Context
from fedstep.core.vec import NewState, State, Vec
from fedstep.corrections.base import Correction, Finished
from fedstep.local.terms import Linear, Term
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class ClientMomentum(Correction):
    """Local steps go along a mixture of the batch's gradient and of the last round's direction.

        client i descends f_i(x) + (1 - alpha) / alpha <M, x>
        M = -(alpha / mean length) mean_i delta_i of the round before, 0 at first

    length is the sum of a client's step sizes. A step alpha eta then goes along
    eta (alpha grad f_i + (1 - alpha) M), and M is the mean of such mixtures over the round: the
    paper's Delta. As a term, the mixture is seen by a line search too.
    """

    alpha: float = 0.1  # the part of the batch's gradient; 1: no momentum

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise InputError(f"ClientMomentum(alpha={self.alpha}): alpha must lie in (0, 1]")

    def terms(self) -> tuple[Term, ...]:
        return (Linear(plus="tilt"),)

    def shared_init(self, x: Vec) -> NewState:
        return {"tilt": torch.zeros_like(x)}

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        return Finished(x - ctx.anchor, message={"length": trace.length})

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        direction = agg.mean(agg.delta)
        # the mean way of the round in the place of K eta: steps may be found by a search
        length = agg.mean(agg.message["length"])
        # a round in which nobody moved says nothing about the direction: keep the last one
        if not bool(length > 0):
            return direction, dict(shared)
        momentum = -self.alpha / length * direction
        tilt = (1 - self.alpha) / self.alpha * momentum
        return direction, {**shared, "tilt": tilt}
