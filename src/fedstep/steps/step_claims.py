"""What clients claim about the step that all of them share, and the bounds of an honest claim."""

from __future__ import annotations

from math import log

import torch

from fedstep.core.message_kinds import Bounded, Logarithm, MessageKind
from fedstep.core.vec import NewState, Scalar, State

LEAST_SHARE = 1e4  # of the common step: what a client may report at the least is T / LEAST_SHARE

KINDS: dict[str, MessageKind] = {
    "log": Logarithm(count="counted"),
    "counted": Bounded(),
    "overshoot.share": Bounded(),
    "overshoot.measured": Bounded(),
}


def bounded_claim(message: State, common: Scalar, grow: float) -> NewState:
    """The logarithm of a step within [T / 10,000, grow T], where there is a T, and whether it counts.

    An honest client may need a far shorter step than T, but one claim must not stop everybody.
    """
    edge = torch.where(common > 0, common, 1.0).log()
    bounded = message["log"].clamp(edge - log(LEAST_SHARE), edge + log(grow))
    claimed = torch.where(common > 0, bounded, message["log"])
    # any count but 0 and 1 would weigh the claim, and who does not count has none
    counted = (message["counted"] > 0).to(message["log"].dtype)
    return {
        "log": torch.where(counted > 0, claimed, 0.0),
        "counted": counted,
    }
