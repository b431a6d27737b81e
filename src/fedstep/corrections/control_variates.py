"""Control variates: a client's function is tilted by what it knows of the others' (SCAFFOLD)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.types import Context
from fedstep.core.vec import NewState, State, Vec, lift, scale
from fedstep.corrections.base import Correction, Finished
from fedstep.local.terms import Linear, Term
from fedstep.local.trace import Trace


def _tilt() -> tuple[Term, ...]:
    """<c - c_i, x>."""
    return (Linear(plus="control", minus="control"),)


def _new_control(shared: State, agg: Aggregate, fraction: float) -> NewState:
    """c + the sum of the clients' changes, every client of the population by its weight."""
    # the clients that were away have not changed theirs: hence the fraction
    change = agg.mean(agg.message["control"])
    return {
        **shared,
        "control": shared["control"] + fraction * change,
    }


@dataclass(frozen=True)
class MeanControl(Correction):
    """c_i becomes the mean gradient along the client's path (option II of the paper).

        client i descends f_i(x) + <c - c_i, x>;  c_i <- c_i - c - delta_i / length_i
        c <- c + |S|/N mean_i(change of c_i)

    length_i is the sum of the steps taken, K eta where they are constant; a client that took none
    keeps its c_i.
    """

    def terms(self) -> tuple[Term, ...]:
        return _tilt()

    def shared_init(self, x: Vec) -> NewState:
        return {"control": torch.zeros_like(x)}

    def memory_init(self, x: Vec) -> NewState:
        return {"control": torch.zeros_like(x)}

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        delta = x - ctx.anchor
        moved = trace.length > 0
        # delta over the way gone is minus the mean gradient along it, for steps of any size
        mean = scale(1 / torch.where(moved, trace.length, 1.0), delta)
        change = -ctx.shared.correction["control"] - mean
        # who took no step has learnt nothing of its gradient
        change = torch.where(lift(moved, delta), change, torch.zeros_like(delta))
        return Finished(
            delta,
            memory={"control": ctx.memory.correction["control"] + change},
            message={"control": change},
        )

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        return agg.mean(agg.delta), _new_control(shared, agg, fraction)


@dataclass(frozen=True)
class AnchorControl(Correction):
    """c_i becomes the gradient over all the client's samples at the model it was sent (option I).

        client i descends f_i(x) + <c - c_i, x>;  c_i <- grad f_i(x_t)
        c <- c + |S|/N mean_i(change of c_i)

    The gradient is that of the probe, which is not sent; it serves from the client's next round on.
    """

    probes = True
    silent = True

    def terms(self) -> tuple[Term, ...]:
        return _tilt()

    def shared_init(self, x: Vec) -> NewState:
        return {"control": torch.zeros_like(x)}

    def memory_init(self, x: Vec) -> NewState:
        return {
            "control": torch.zeros_like(x),
            "gradient": torch.zeros_like(x),
        }

    def probe(self, ctx: Context, g: Vec) -> tuple[NewState, NewState]:
        return {"gradient": g}, {}

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        # the tilt of this round was by the old c_i: the gradient at x_t was not known to others yet
        new = ctx.memory.correction["gradient"]
        change = new - ctx.memory.correction["control"]
        return Finished(
            x - ctx.anchor,
            memory={"control": new},
            message={"control": change},
        )

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        return agg.mean(agg.delta), _new_control(shared, agg, fraction)
