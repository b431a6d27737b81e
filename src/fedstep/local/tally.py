"""Sums over the local steps of a round."""

from __future__ import annotations

import torch
from torch import Tensor

from fedstep.core.vec import NewState, State, lift


def added(
    tally: State,
    live: Tensor,
    counts: State,
    rows: Tensor | None,
) -> NewState:
    """The tally with what one local step counted.

    live: who took the step, of the rows of the block that had it (None: all rows).
    """
    counts = _of_live(live, counts)
    if rows is None:
        return {name: total + counts[name] for name, total in tally.items()}
    return {name: total.index_add(0, rows, counts[name]) for name, total in tally.items()}


def _of_live(live: Tensor, counts: State) -> State:
    """Counts of the clients that took the step; who is at rest is evaluated but counts nothing."""
    if bool(live.all()):
        return counts
    return {name: torch.where(lift(live, n), n, torch.zeros_like(n)) for name, n in counts.items()}
