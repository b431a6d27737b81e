"""A scale for every coordinate that the clients measure together."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.message_kinds import Bounded, MessageKind
from fedstep.core.vec import NewState, State, Vec
from fedstep.local.directions import Direction


@dataclass(frozen=True)
class Conditioned(Direction):
    """Divide every coordinate by the cohort's root mean square of its gradients.

        d -> d / (sqrt(p) + tau);  p <- memory p + (1 - memory) q / mean(q)
        q = mean over clients of (mean over their steps of g^2) / (its mean over coordinates)

    p has the mean 1 and begins as 1 everywhere, so the first round goes along d itself. It is the
    same for all clients and does not change within a round: the mean of their deltas stays a step
    of one metric. Nothing in it has a unit: gradients times 1,000 leave p as it is, and tau is
    relative. The larger tau, the nearer to plain gradients. A client's squares are divided by their
    own mean, so that nobody's loud gradients drown the others'.

    Costs as many numbers as the model has, once up and once down a round. A client whose gradients
    are all 0, or one of whose gradients is not finite, says nothing in that round.
    """

    tau: float = 0.1  # of the root mean square over coordinates
    memory: float = 0.9  # of p, for one round

    def __post_init__(self) -> None:
        if not self.tau > 0:
            raise InputError(f"Conditioned(tau={self.tau}): tau must be positive; try 0.1")
        if not 0 <= self.memory < 1:
            raise InputError(
                f"Conditioned(memory={self.memory}): the memory must lie in [0, 1); try 0.9"
            )

    def init(self, x: Vec) -> NewState:
        return {
            "factors": torch.ones_like(x),
            "squares": torch.zeros_like(x),
        }

    def shared_init(self, x: Vec) -> NewState:
        return {
            "second": torch.ones_like(x),
            "measured": x.new_zeros(()),
        }

    def begin(self, x: Vec, sent: State) -> NewState:
        # once a round: the scales stay as they are until its end
        factors = 1 / (sent["second"].sqrt() + self.tau)
        return {
            "factors": factors.expand_as(x),
            "squares": torch.zeros_like(x),
        }

    def apply(
        self,
        d: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        return d * state["factors"], self._counted(d, state)

    def downhill(
        self,
        g: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        # in place, into the product: the sign costs no second pass over a block of models
        return (g * state["factors"]).neg_(), self._counted(g, state)

    def _counted(self, d: Vec, state: State) -> NewState:
        """The state with the squares of one more gradient, whatever its sign."""
        return {
            "factors": state["factors"],
            "squares": torch.addcmul(state["squares"], d, d),
        }

    def message(self, state: State) -> NewState:
        return {"squares": _of_mean_1(state["squares"])}

    def message_kinds(self) -> dict[str, MessageKind]:
        return {"squares": Bounded()}

    def received(
        self,
        message: State,
        shared: State,
    ) -> State:
        # once more: whoever claims more than a mean of 1 would set the scales alone
        squares = message["squares"].clamp(min=0.0)
        return {"squares": _of_mean_1(squares)}

    def fold(
        self,
        shared: State,
        message: State,
        agg: Aggregate,
    ) -> NewState:
        # squares are never below 0, but a private sum of them is with noise
        squares = message["squares"].clamp(min=0.0)
        level = squares.mean()
        if not bool(level > 0):
            return dict(shared)
        measured = squares / level
        # the first cohort replaces the 1s, which nobody has measured
        memory = self.memory * shared["measured"]
        return {
            "second": memory * shared["second"] + (1 - memory) * measured,
            "measured": torch.ones_like(shared["measured"]),
        }


def _of_mean_1(squares: Vec) -> Vec:
    """Squares of mean 1 over the coordinates; 0 where there is nothing to be scaled."""
    # the largest first: a sum of squares near the end of float32 would be infinite
    largest = squares.amax(-1, keepdim=True)
    spoke = (largest > 0) & torch.isfinite(largest)
    relative = squares / torch.where(spoke, largest, 1.0)
    level = relative.mean(-1, keepdim=True)
    return torch.where(spoke, relative / torch.where(spoke, level, 1.0), 0.0)
