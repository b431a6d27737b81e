"""A bound on how far one round may go, from how far the rounds before it went."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.nested import join, part
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, State, Vec, norm_sq
from fedstep.server.rules import ServerRule, ServerStep, Step


@dataclass(frozen=True)
class Steady(ServerRule):
    """The rule inside, for a mean delta that is at most `most` times as long as they usually are.

        d <- d min(1, most L / |d|);  L <- memory L + (1 - memory) |d|

    L begins with the length of the first delta, and there is no bound before it. Where classes can
    be separated the loss has no minimum: gradients become short, steps long, and then one batch
    that does not fit has a gradient of the old length. Its client goes as far as that batch alone
    allows. Such a round is rare, and it must not undo the others.
    """

    rule: ServerRule = Step()
    most: float = 3.0
    memory: float = 0.8

    def __post_init__(self) -> None:
        check_slots(self, rule=ServerRule)
        if not self.most >= 1:
            raise InputError(f"Steady(most={self.most}): the bound must be 1 or more; try 3")
        if not 0 <= self.memory < 1:
            raise InputError(
                f"Steady(memory={self.memory}): the memory must lie in [0, 1); try 0.8"
            )

    @property
    def usual_step(self) -> float:
        return self.rule.usual_step

    def init(self, x: Vec) -> NewState:
        return join(rule=self.rule.init(x), length=x.new_zeros(()))

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        usual = state["length"]
        length = norm_sq(d).sqrt()
        bounded = torch.minimum(length, self.most * usual)
        # the first delta that is not 0 is the measure, and itself without one
        bounded = torch.where(usual > 0, bounded, length)
        share = bounded / torch.where(length > 0, length, 1.0)
        inside = self.rule.update(x, share * d, agg, part(state, "rule"))
        after = self.memory * usual + (1 - self.memory) * bounded
        return ServerStep(
            x=inside.x,
            eta_g=inside.eta_g,
            state=join(
                rule=inside.state,
                length=torch.where(usual > 0, after, bounded),
            ),
        )
