"""Where the time of a study's runs went, by kind and method."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedstep.study.plan import Job

FILE = "profile.json"
KINDS = (
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


def summary(seconds: dict[str, float], wall: float, rounds: int, workers: int) -> dict[str, Any]:
    """What is written beside a run: core seconds by kind; `rest` is what nobody counted (sampling, checkpoints, journals)."""
    counted = sum(seconds.values())
    each = {kind: round(seconds.get(kind, 0.0), 4) for kind in KINDS[:-1]}
    serial = seconds.get("aggregation", 0.0) + seconds.get("evaluation", 0.0)
    spent = wall if workers == 1 else (wall - serial) * workers + serial
    return {
        "rounds": rounds,
        "workers": workers,
        "wall": wall,
        "seconds": {**each, "rest": max(0.0, spent - counted)},
    }


def rows(
    jobs: Sequence[Job], labels: Sequence[str], home: Path
) -> list[tuple[str, float, dict[str, float]]]:
    """For each method: milliseconds a round, and the share of every kind; methods without a profile are left out."""
    found: dict[str, list[dict[str, Any]]] = {}
    for job, label in zip(jobs, labels, strict=True):
        path = home / "runs" / job.digest / FILE
        if path.exists():
            found.setdefault(label, []).append(json.loads(path.read_text()))
    table = []
    for label, profiles in found.items():
        seconds = {kind: sum(p["seconds"][kind] for p in profiles) for kind in KINDS}
        total = sum(seconds.values()) or 1.0
        wall = sum(p["wall"] for p in profiles) / max(1, sum(p["rounds"] for p in profiles))
        table.append((label, 1000 * wall, {kind: value / total for kind, value in seconds.items()}))
    return table
