"""What a search remembers from one batch to the next."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.nested import NestedState
from fedstep.core.vec import NewState, Scalar, State, lift


@dataclass(frozen=True)
class SearchState(NestedState):
    """What a search knows when it begins: the step it starts from, and what its parts remember."""

    step: Scalar
    reset: State
    reference: State
    cadence: State


@dataclass(frozen=True)
class CommonState(NestedState):
    """What a client knows during a round."""

    common: Scalar  # the cohort's step, 0 in the first round
    factor: Scalar  # the pace
    reach: Scalar  # how far one step may go while there is no common step
    last: Scalar  # the last accepted step, 0: none yet
    guess: State  # of Fitted
    promised: Scalar  # sum over searched steps of |<g, d>|
    bent: Scalar  # sum over searched steps of |<g, d>| / limit
    cadence: State
    path: State  # of Overshoot


def where_chosen(
    chosen: Tensor,
    new: State,
    old: State,
) -> NewState:
    """The new state of the chosen clients, the old one of the others."""
    mixed = {}
    for name, value in new.items():
        mixed[name] = torch.where(
            lift(chosen, value),
            value,
            old[name],
        )
    return mixed
