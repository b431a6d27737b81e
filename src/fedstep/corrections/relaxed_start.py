"""Clients begin a little beyond the server's model, away from where they ended last (FedInit)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.errors import InputError
from fedstep.core.types import Context
from fedstep.core.vec import NewState, Vec, scale
from fedstep.corrections.base import Correction, Finished
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class RelaxedStart(Correction):
    """A client begins at x_t + beta (x_t - x_i).

    x_i is where it ended its last round; its first round begins at x_t. The delta is what it is
    everywhere, the way from x_t to where it ends.
    """

    beta: float = 0.1  # 0: begin at the server's model

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise InputError(f"RelaxedStart(beta={self.beta}): beta must lie in [0, 1)")

    def memory_init(self, x: Vec) -> NewState:
        return {
            "end": torch.zeros_like(x),
            "met": x.new_zeros(()),
        }

    def start(self, ctx: Context) -> Vec:
        memory = ctx.memory.correction
        beyond = ctx.anchor - memory["end"]
        # "met" is 0 before the first round: then there is no end to go away from
        return ctx.anchor + scale(self.beta * memory["met"], beyond)

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        memory = {
            "end": x,
            "met": torch.ones_like(ctx.memory.correction["met"]),
        }
        return Finished(x - ctx.anchor, memory)
