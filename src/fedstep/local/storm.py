"""A variance-reduced, preconditioned client whose moments the server averages."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec, scale
from fedstep.local.moves import Look, Move


@dataclass(frozen=True)
class Storm(Move):
    """Go along a recursive gradient estimate, scaled by a second moment that all clients share.

        x' = x - eta m / A,  A = sqrt(v of the server) + rho
        m <- g(x') + (1 - a) (m - g(x)),  v <- beta v + (1 - beta) g(x')^2

    A is kept for a round. g(x) and g(x') are of the same batch: one more gradient a step. A round
    ends with the server's means of m and v, from which the next one begins. A client that was not
    sent them yet begins with m = g(x), v = 0 and A = 1.
    """

    a: float = 0.1  # 1: plain gradients; 0: no forgetting
    beta: float = 0.9
    rho: float = 0.1  # bounds the steps of coordinates at rest

    def __post_init__(self) -> None:
        if not 0 <= self.a <= 1:
            raise InputError(
                f"Storm(a={self.a}): a must lie in [0, 1]; 1 uses the new gradient alone"
            )
        if not 0 <= self.beta <= 1:
            raise InputError(f"Storm(beta={self.beta}): beta must lie in [0, 1]")
        if not self.rho > 0:
            raise InputError(
                f"Storm(rho={self.rho}): rho must be positive, "
                "or a coordinate at rest divides by zero"
            )

    def shared_init(self, x: Vec) -> NewState:
        return {
            "m": torch.zeros_like(x),
            "v": torch.zeros_like(x),
            "known": x.new_zeros(()),
        }

    def begin(self, x: Vec, shared: State) -> NewState:
        known = shared["known"].expand(x.shape[:-1])
        v = shared["v"].expand(x.shape)
        return {
            "m": shared["m"].expand(x.shape),
            "v": v,
            "known": known,
            "scale": torch.where(known.unsqueeze(-1) > 0, v.sqrt() + self.rho, 1.0),
        }

    def __call__(
        self,
        x: Vec,
        step: Scalar,
        d: Vec,
        look: Look,
        state: State,
    ) -> tuple[Vec, NewState]:
        # -d is g(x) where nothing is known yet
        m = torch.where(state["known"].unsqueeze(-1) > 0, state["m"], -d)
        new = x - scale(step, m / state["scale"])
        g = look(new)
        after = {
            "m": g + (1 - self.a) * (m + d),
            "v": self.beta * state["v"] + (1 - self.beta) * g * g,
            "known": torch.ones_like(state["known"]),
            "scale": state["scale"],
        }
        return new, after

    def message(self, state: State) -> NewState:
        # who took no step knows nothing: the server divides by the weight of those who do
        known = state["known"]
        return {
            "m": scale(known, state["m"]),
            "v": scale(known, state["v"]),
            "known": known,
        }

    def received(
        self,
        message: State,
        shared: State,
    ) -> State:
        # a mean of squares below 0 has no root, and one client is enough to make it so
        return {
            "m": message["m"],
            "v": message["v"].clamp(min=0.0),
            "known": message["known"].clamp(0.0, 1.0),
        }

    def fold(
        self,
        shared: State,
        message: State,
        agg: Aggregate,
    ) -> NewState:
        weight = message["known"]
        # nobody took a step: what was known is still the best there is
        if not bool(weight > 0):
            return dict(shared)
        return {
            "m": message["m"] / weight,
            "v": message["v"] / weight,
            "known": torch.ones_like(weight),
        }
