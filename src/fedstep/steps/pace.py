"""A factor for all clients' steps that falls where rounds undo each other or clients go too far."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec
from fedstep.steps.agreement import cosine


@dataclass(frozen=True)
class Pace:
    """The common factor s = exp(a) <= 1 of all client steps, from rounds and from ways.

        h = cos(D_t, M_{t-1}) - max(0, o_t);  a <- min(0, a + gain h)
        M_t = memory M_{t-1} + (1 - memory) D_t

    D_t is the mean delta of round t, o_t what `Overshoot` says of the ways that the clients went in
    it; a and M begin at 0. Where rounds agree s stays 1. Where they undo each other it falls, near
    a minimum about as 1 / t: the mean of the cosine is there proportional to -s. Where clients are
    noisy within a round already, rounds may agree for long, and o_t speaks first. The gain is 1
    until rounds disagree for the first time, and `gain` from then on.
    """

    gain: float = 0.5
    memory: float = 0.9

    def __post_init__(self) -> None:
        if not self.gain >= 0:
            raise InputError(f"Pace(gain={self.gain}): the gain must be 0 or more; 0: no pace")
        if not 0 <= self.memory < 1:
            raise InputError(f"Pace(memory={self.memory}): the memory must lie in [0, 1); try 0.9")

    def init(self, x: Vec) -> NewState:
        """The state on the server, for a model x of shape `(d,)`."""
        one = x.new_ones(())
        return {
            "factor": one,
            "log": torch.zeros_like(one),
            "gain": one,
            "mean": torch.zeros_like(x),
        }

    def after(
        self,
        delta: Vec,
        overshoot: Scalar,
        state: State,
    ) -> NewState:
        """The state after a round with this mean delta and overshoot of the clients."""
        mean = state["mean"]
        agreement = cosine(delta, mean)
        # Before the first delta there is nothing to agree with: an agreement of 0 says nothing then.
        disagrees = (agreement <= 0) & bool((mean != 0).any())
        gain = torch.where(
            disagrees,
            min(self.gain, 1.0),
            state["gain"],
        )
        if self.gain == 0:
            gain = torch.zeros_like(gain)
        # clients that could have gone on say nothing of how noisy the others are
        evidence = agreement - overshoot.clamp(min=0.0)
        log = (state["log"] + gain * evidence).clamp(max=0.0)
        return {
            "factor": log.exp(),
            "log": log,
            "gain": gain,
            "mean": self.memory * mean + (1 - self.memory) * delta,
        }
