"""A factor for all clients' steps that falls where rounds undo each other or clients go too far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec
from fedstep.steps.agreement import cosine

FORGET = 0.02  # of the difference between the edge at full pace and the present one, a round


@dataclass(frozen=True)
class Pace:
    """The common factor s = exp(a) <= 1 of all client steps, from rounds, ways and edges.

        h = c_t - max(0, o_t);  a <- min(0, a + gain h)
        c_t = cos(D_t, M_{t-1}), or min(0, cos(D_t, M_{t-1}) + max(0, log(E / e_t) - slack)) below 0
        M_t = memory M_{t-1} + (1 - memory) D_t;  e_t = e_{t-1}^memory T_t^(1 - memory)
        E <- max(e_t, E^(1 - FORGET) e_t^FORGET) where s = 1, and stays where s < 1

    D_t is the mean delta of round t, o_t what `Overshoot` says of the ways that the clients went in
    it, T_t the longest step that curvature allows; a and M begin at 0, e and E at the first T.
    Where rounds agree s stays 1. Where they undo each other it falls, near a minimum about as 1 / t:
    the mean of the cosine is there proportional to -s. Where clients are noisy within a round
    already, rounds may agree for long, and o_t speaks first.

    Steps near the edge keep a network where the loss is flat. A slower pace lets it sink into
    ever sharper places, where T falls as well, and rounds go on undoing each other at any pace: the
    two would end the run. So where T has fallen since the clients went at full pace, rounds that
    disagree are excused by as much; what o_t says still counts. Where curvature does not depend
    on the pace, log(E / e_t) is noise, and `slack` is above it.

    The gain is 1 until rounds disagree for the first time, and `gain` from then on.
    """

    gain: float = 0.5
    memory: float = 0.9
    slack: float = 0.3
    # what clients need not know: all but the factor
    withheld: ClassVar[frozenset[str]] = frozenset({"log", "gain", "mean", "edge", "edge_at_full"})

    def __post_init__(self) -> None:
        if not self.gain >= 0:
            raise InputError(f"Pace(gain={self.gain}): the gain must be 0 or more; 0: no pace")
        if not 0 <= self.memory < 1:
            raise InputError(f"Pace(memory={self.memory}): the memory must lie in [0, 1); try 0.9")
        if not self.slack >= 0:
            raise InputError(f"Pace(slack={self.slack}): it must be 0 or more; try 0.3")

    def init(self, x: Vec) -> NewState:
        """The state on the server, for a model x of shape `(d,)`."""
        one = x.new_ones(())
        zero = torch.zeros_like(one)
        return {
            "factor": one,
            "log": zero,
            "gain": one,
            "mean": torch.zeros_like(x),
            "edge": zero,
            "edge_at_full": zero,
        }

    def after(
        self,
        delta: Vec,
        overshoot: Scalar,
        longest: Scalar,
        state: State,
    ) -> NewState:
        """The state after a round with this mean delta and overshoot, and the T that it has led to."""
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
        edges = self._edges(longest, state)
        sharpened = _log_ratio(edges["edge_at_full"], edges["edge"]) - self.slack
        # an excuse and no more: by itself a fallen T makes nobody faster
        excused = (agreement + sharpened.clamp(min=0.0)).clamp(max=0.0)
        agreement = torch.where(agreement < 0, excused, agreement)
        # clients that could have gone on say nothing of how noisy the others are
        evidence = agreement - overshoot.clamp(min=0.0)
        log = (state["log"] + gain * evidence).clamp(max=0.0)
        return {
            "factor": log.exp(),
            "log": log,
            "gain": gain,
            "mean": self.memory * mean + (1 - self.memory) * delta,
            **edges,
        }

    def _edges(self, longest: Scalar, state: State) -> NewState:
        """The geometric mean of T over rounds, and what it was when clients last went at full pace."""
        # 0: no round has measured a T yet
        mean = state["edge"] ** self.memory * longest ** (1 - self.memory)
        edge = torch.where(state["edge"] > 0, mean, longest)
        edge = torch.where(longest > 0, edge, state["edge"])
        before = torch.where(state["edge"] > 0, state["edge_at_full"], edge)
        at_full = torch.maximum(edge, before ** (1 - FORGET) * edge**FORGET)
        slowed = state["log"] < 0
        return {
            "edge": edge,
            "edge_at_full": torch.where(slowed, before, at_full),
        }


def _log_ratio(above: Scalar, below: Scalar) -> Scalar:
    """log(above / below), 0 where one of them is 0."""
    defined = (above > 0) & (below > 0)
    return torch.where(defined, above, 1.0).log() - torch.where(defined, below, 1.0).log()
