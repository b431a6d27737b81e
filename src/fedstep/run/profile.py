"""Where the time of a run went, as it is written beside the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PROFILE_FILE = "profile.json"
TIME_KINDS = (
    "data",
    "forward",
    "backward",
    "trials",
    "update",
    "aggregation",
    "evaluation",
    "idle",
    "rest",
)
SERIAL = ("aggregation", "evaluation")  # done by one process while the workers wait


def profile_of(
    seconds: Mapping[str, float],
    wall: float,
    rounds: int,
    workers: int,
) -> dict[str, Any]:
    """Core seconds by kind; `rest` is what nobody counted (sampling, checkpoints, journals)."""
    by_kind = {}
    for kind in TIME_KINDS[:-1]:
        by_kind[kind] = round(seconds.get(kind, 0.0), 4)
    spent = wall
    if workers > 1:
        serial = sum(seconds.get(kind, 0.0) for kind in SERIAL)
        spent = (wall - serial) * workers + serial
    # clocks of several processes differ a little: the rest must not come out below zero
    counted = sum(seconds.values())
    by_kind["rest"] = max(0.0, spent - counted)
    return {
        "rounds": rounds,
        "workers": workers,
        "wall": wall,
        "seconds": by_kind,
    }
