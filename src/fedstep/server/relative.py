"""A server step relative to how much clients usually disagree."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, State, Vec, norm_sq
from fedstep.server.rules import ServerRule, ServerStep, check_step


@dataclass(frozen=True)
class RelativeDiversity(ServerRule):
    """Go further in rounds whose deltas disagree more than usual (FedGLAD; Chen et al., 2023).

        G_t = sqrt(mean |delta_i|^2 / |d|^2)
        B_0 = B_1 = G_0, B_{t+1} = memory B_t + (1 - memory) G_t
        eta_g = step * clip(G_t / B_t, 1 - bound t, 1 + bound t);  x + eta_g * d

    G_t is FedExP's ratio but for the root and a factor; divided by its own mean it says how this
    round compares with others, not how large it is. The first round is plain averaging, the
    bounds widen from there, down to no step at all. A round with d = 0 changes nothing.
    """

    step: float = 1.0
    memory: float = 0.9  # of the usual diversity
    bound: float = 0.02  # how much wider the bounds are in every round

    def __post_init__(self) -> None:
        check_step("RelativeDiversity", self.step)
        if not 0 <= self.memory < 1:
            raise InputError(f"RelativeDiversity(memory={self.memory}): it must lie in [0, 1)")
        if not self.bound >= 0:
            raise InputError(f"RelativeDiversity(bound={self.bound}): it must be 0 or more")

    @property
    def usual_step(self) -> float:
        return self.step

    def init(self, x: Vec) -> NewState:
        return {
            "usual": x.new_zeros(()),
            "t": x.new_zeros(()),
        }

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        length_sq = norm_sq(d)
        if not bool(length_sq > 0):
            return ServerStep(x, x.new_full((), self.step), state)
        t = state["t"]
        diversity = (agg.mean(agg.norm_sq) / length_sq).sqrt()
        # there is no usual before the first round: its ratio is 1
        usual = torch.where(t == 0, diversity, state["usual"])
        # a step below zero would undo the clients' work: the program's bound is -1 in round 100
        low = (1 - self.bound * t).clamp(min=0.0)
        high = 1 + self.bound * t
        factor = torch.minimum(torch.maximum(diversity / usual, low), high)
        eta_g = self.step * factor
        mean = self.memory * usual + (1 - self.memory) * diversity
        after = {
            "usual": torch.where(t == 0, diversity, mean),
            "t": t + 1,
        }
        return ServerStep(x + eta_g * d, eta_g, after)
