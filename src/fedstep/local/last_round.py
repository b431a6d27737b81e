"""Moves that know which way the last round went."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec, norm_sq, scale
from fedstep.local.moves import Look, Move, advance


class AfterLastRound(Move):
    """The server sends what it learnt of the round before, a vector; 0 at first."""

    def shared_init(self, x: Vec) -> NewState:
        return {"last": torch.zeros_like(x)}

    def begin(self, x: Vec, shared: State) -> NewState:
        return {
            "last": shared["last"].expand(x.shape),
            "steps": x.new_zeros(x.shape[:-1]),
        }


@dataclass(frozen=True)
class Alongside(AfterLastRound):
    """Every step is joined by a part of the last round's mean step (FedMuon's alignment).

        x + step * d + weight * D / K

    D is the mean delta of the round before and K its mean number of local steps, which clients
    report. The step that a search tests is the first part alone.
    """

    weight: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.weight < 1:
            raise InputError(
                f"Alongside(weight={self.weight}): it must lie in [0, 1), or rounds grow for ever"
            )

    def __call__(
        self,
        x: Vec,
        step: Scalar,
        d: Vec,
        look: Look,
        state: State,
    ) -> tuple[Vec, NewState]:
        new = advance(x, step, d) + self.weight * state["last"]
        return new, {"last": state["last"], "steps": state["steps"] + 1}

    def message(self, state: State) -> NewState:
        return {"steps": state["steps"]}

    def received(
        self,
        message: State,
        shared: State,
    ) -> State:
        # nobody takes fewer steps than none
        return {"steps": message["steps"].clamp(min=0.0)}

    def fold(
        self,
        shared: State,
        message: State,
        agg: Aggregate,
    ) -> NewState:
        steps = agg.mean(message["steps"])
        # a round without steps says nothing about the way
        if not bool(steps > 0):
            return dict(shared)
        return {"last": agg.mean(agg.delta) / steps}


@dataclass(frozen=True)
class Behind(AfterLastRound):
    """Gradients are looked up a distance rho back on the way that the last round went (FedLESAM).

        g = grad f(x - rho D / |D|)

    D is the mean delta of the round before: where it came from the common function is higher, so
    this is a guess of the way uphill that costs no second gradient. Terms are looked up there, too.
    """

    rho: float = 0.1

    def __post_init__(self) -> None:
        if not self.rho >= 0:
            raise InputError(f"Behind(rho={self.rho}): the distance must be 0 or more")

    def view(self, x: Vec, seed: Tensor, state: State) -> Vec:
        last = state["last"]
        length = norm_sq(last).sqrt()
        some = length > 0
        factor = torch.where(some, self.rho / torch.where(some, length, 1.0), 0.0)
        return x - scale(factor, last)

    def __call__(
        self,
        x: Vec,
        step: Scalar,
        d: Vec,
        look: Look,
        state: State,
    ) -> tuple[Vec, NewState]:
        return advance(x, step, d), dict(state)

    def fold(
        self,
        shared: State,
        message: State,
        agg: Aggregate,
    ) -> NewState:
        return {"last": agg.mean(agg.delta)}
