"""Gradients are exchanged before the local steps: clients descend models of the common function."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.types import Context
from fedstep.core.vec import NewState, State, Vec
from fedstep.corrections.base import Correction
from fedstep.local.terms import Linear, Term


@dataclass(frozen=True)
class Exchange(Correction):
    """Tilt the client's function so that its slope at x_t is the common one.

        client i descends f_i(x) + <g - grad f_i(x_t), x>,  g = mean_i grad f_i(x_t)

    With `asks_others` the mean is over another sample of clients than the one that trains.
    """

    asks_others: bool = False  # FedDANE's second sample
    probes = True

    def terms(self) -> tuple[Term, ...]:
        return (Linear(plus="gradient", minus="gradient"),)

    def shared_init(self, x: Vec) -> NewState:
        return {"gradient": torch.zeros_like(x)}

    def memory_init(self, x: Vec) -> NewState:
        return {"gradient": torch.zeros_like(x)}

    def probe(self, ctx: Context, g: Vec) -> tuple[NewState, NewState]:
        return {"gradient": g}, {}

    def gather(self, shared: State, agg: Aggregate) -> NewState:
        # in the reply to a probe the gradient stands in the place of the delta
        return {"gradient": agg.mean(agg.delta)}
