"""A server that goes further while rounds agree, and a direction that counts small coordinates too."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.nested import join, part
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, Scalar, State, Vec, norm_sq
from fedstep.server.rules import ServerRule, ServerStep, Step
from fedstep.steps.agreement import cosine


@dataclass(frozen=True)
class Grafted(ServerRule):
    """Adam's direction without momentum, at the length of the mean delta.

        v <- beta v + (1 - beta) d^2;  u = d / (r + tau rms(r)),  r = sqrt(v / (1 - beta^t))
        x + |d| u / |u|

    Nothing in it has a unit: the length is that of d, tau is relative to the root mean square of r.
    The larger tau, the nearer to plain averaging.
    """

    beta: float = 0.99
    tau: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise InputError(f"Grafted(beta={self.beta}): beta must lie in [0, 1)")
        if not self.tau > 0:
            raise InputError(f"Grafted(tau={self.tau}): tau must be positive; try 0.1")

    def init(self, x: Vec) -> NewState:
        return {"v": torch.zeros_like(x), "rounds": x.new_zeros(())}

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        # counted here and not taken from the server: rounds in which nobody counted teach nothing
        rounds = state["rounds"] + 1
        v = self.beta * state["v"] + (1 - self.beta) * d * d
        root = (v / (1 - self.beta**rounds)).sqrt()
        below = root + self.tau * root.square().mean().sqrt()
        # below is 0 only where no delta has been anything but 0
        u = d / torch.where(below > 0, below, 1.0)
        # only the direction of u is used: the length is that of d
        length = norm_sq(u).sqrt()
        scale = norm_sq(d).sqrt() / torch.where(length > 0, length, 1.0)
        return ServerStep(
            x=x + scale * u,
            eta_g=torch.ones_like(scale),
            state={"v": v, "rounds": rounds},
        )


@dataclass(frozen=True)
class Onward(ServerRule):
    """Go further than the rule inside while the mean delta agrees with the last move.

        h = cos(d_t, u_{t-1});  b <- clip(b + gain h, 0, log min(most, spread));  x + exp(b) u_t
        spread = mean |delta_i|^2 / |d_t|^2

    u_t is the move of the rule inside: d_t itself for `Step()`. b begins at 0. eta_g is exp(b). It
    never goes less far than the rule inside: to slow down is the clients' part (`Pace`).

    The spread is FedExP's ratio, twice its step: what averaging has taken from the clients' deltas.
    To go further than that would be to go further than the clients themselves went. With equal
    deltas it is 1, and nothing is added to steps that are at the edge already.
    """

    rule: ServerRule = Step()
    most: float = 4.0
    gain: float = 0.5

    def __post_init__(self) -> None:
        check_slots(self, rule=ServerRule)
        if not self.most >= 1:
            raise InputError(f"Onward(most={self.most}): the longest step must be 1 or more; try 4")
        if not self.gain >= 0:
            raise InputError(f"Onward(gain={self.gain}): the gain must be 0 or more; try 0.5")

    def init(self, x: Vec) -> NewState:
        return join(rule=self.rule.init(x), move=torch.zeros_like(x), log=x.new_zeros(()))

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        inside = self.rule.update(x, d, agg, part(state, "rule"))
        # before it is lengthened: the next round compares directions only
        move = inside.x - x
        further = state["log"] + self.gain * cosine(d, state["move"])
        further = torch.minimum(further, self._longest(d, agg))
        further = further.clamp(min=0.0)
        eta_g = further.exp()
        return ServerStep(
            x=x + eta_g * move,
            eta_g=eta_g,
            state=join(rule=inside.state, move=move, log=further),
        )

    def _longest(self, d: Vec, agg: Aggregate) -> Scalar:
        """The logarithm of the longest step that the clients' deltas allow."""
        square = norm_sq(d)
        # d is 0 where nobody moved, or all cancelled: there is no direction to go further along
        spread = agg.mean(agg.norm_sq) / torch.where(square > 0, square, 1.0)
        return spread.clamp(1.0, self.most).log()
