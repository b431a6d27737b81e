"""A server step relative to how much clients usually disagree."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.vec import State, Vec, norm_sq
from fedstep.server.rules import check_step, eta


@dataclass(frozen=True)
class RelativeDiversity:
    """Go further in rounds whose deltas disagree more than usual (FedGLAD; Chen et al., 2023).

        G_t = sqrt(mean |delta_i|^2 / |d|^2);  B_0 = B_1 = G_0, B_{t+1} = memory B_t + (1 - memory) G_t
        eta_g = step * clip(G_t / B_t, 1 - bound t, 1 + bound t);  x + eta_g * d

    G_t is FedExP's ratio but for the root and a factor; divided by its own mean it says how this
    round compares with others, not how large it is. The first round is plain averaging, the
    bounds widen from there, down to no step at all. A round with d = 0 changes nothing.
    """

    step: float = 1.0
    memory: float = 0.9
    bound: float = 0.02

    def __post_init__(self) -> None:
        check_step("RelativeDiversity", self.step)
        if not 0 <= self.memory < 1:
            raise InputError(f"RelativeDiversity(memory={self.memory}): it must lie in [0, 1)")
        if not self.bound >= 0:
            raise InputError(f"RelativeDiversity(bound={self.bound}): it must be 0 or more")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"usual": x.new_zeros(()), "t": x.new_zeros(()), **eta(x, self.step)}

    def update(self, x: Vec, d: Vec, agg: Aggregate, state: State) -> tuple[Vec, dict[str, Tensor]]:
        length_sq = norm_sq(d)
        if not bool(length_sq > 0):
            return x, dict(state)
        t = state["t"]
        diversity = (agg.mean(agg.norm_sq) / length_sq).sqrt()
        usual = torch.where(t == 0, diversity, state["usual"])
        # a step below zero would undo the clients' work: the program's bound reaches -1 in round 100
        low = (1 - self.bound * t).clamp(min=0.0)
        high = 1 + self.bound * t
        factor = torch.minimum(torch.maximum(diversity / usual, low), high)
        eta_g = self.step * factor
        mean = self.memory * usual + (1 - self.memory) * diversity
        after = {
            "usual": torch.where(t == 0, diversity, mean),
            "t": t + 1,
            "eta_g": eta_g,
        }
        return x + eta_g * d, after
