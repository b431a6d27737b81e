"""Control variates: every client's function is tilted by what it knows of the others' (SCAFFOLD)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.types import Context
from fedstep.core.vec import State, Vec, lift, scale
from fedstep.corrections.base import Correction
from fedstep.local.terms import Linear, Term
from fedstep.local.trace import Trace


def tilt() -> tuple[Term, ...]:
    """<c - c_i, x>."""
    return (Linear("control", "control"),)


def settled(shared: State, agg: Aggregate, fraction: float) -> dict[str, Tensor]:
    """c + the sum of the clients' changes, every client of the population counting by its weight."""
    return {**shared, "control": shared["control"] + fraction * agg.mean(agg.message["control"])}


@dataclass(frozen=True)
class MeanControl(Correction):
    """c_i becomes the mean gradient along the client's path (option II of the paper).

        client i descends f_i(x) + <c - c_i, x>;  c_i <- c_i - c - delta_i / length_i;  c <- c + |S|/N mean_i(change of c_i)

    length_i is the sum of the steps taken, K eta where they are constant; a client that took none keeps its c_i.
    """

    def terms(self) -> tuple[Term, ...]:
        return tilt()

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        return {"control": torch.zeros_like(x)}

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        return {"control": torch.zeros_like(x)}

    def finish(
        self, ctx: Context, x: Vec, trace: Trace
    ) -> tuple[Vec, dict[str, Tensor], dict[str, Tensor]]:
        delta, moved = x - ctx.anchor, trace.length > 0
        mean = scale(1 / torch.where(moved, trace.length, 1.0), delta)
        change = torch.where(
            lift(moved, delta), -ctx.shared["control"] - mean, torch.zeros_like(delta)
        )
        return delta, {"control": ctx.memory["control"] + change}, {"control": change}

    def fold(self, shared: State, agg: Aggregate, fraction: float) -> tuple[Vec, dict[str, Tensor]]:
        return agg.mean(agg.delta), settled(shared, agg, fraction)


@dataclass(frozen=True)
class AnchorControl(Correction):
    """c_i becomes the gradient over all the client's samples at the model it was sent (option I of the paper).

        client i descends f_i(x) + <c - c_i, x>;  c_i <- grad f_i(x_t);  c <- c + |S|/N mean_i(change of c_i)

    The gradient is that of the probe, which is not sent; it serves from the client's next round on.
    """

    probes = True
    silent = True

    def terms(self) -> tuple[Term, ...]:
        return tilt()

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        return {"control": torch.zeros_like(x)}

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        return {"control": torch.zeros_like(x), "gradient": torch.zeros_like(x)}

    def probe(self, ctx: Context, g: Vec) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        return {"gradient": g}, {}

    def finish(
        self, ctx: Context, x: Vec, trace: Trace
    ) -> tuple[Vec, dict[str, Tensor], dict[str, Tensor]]:
        new = ctx.memory["gradient"]
        return x - ctx.anchor, {"control": new}, {"control": new - ctx.memory["control"]}

    def fold(self, shared: State, agg: Aggregate, fraction: float) -> tuple[Vec, dict[str, Tensor]]:
        return agg.mean(agg.delta), settled(shared, agg, fraction)
