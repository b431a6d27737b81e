"""Where the time of a study's runs went, by kind and method."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedstep.run.profile import PROFILE_FILE, TIME_KINDS
from fedstep.study.plan import Job


@dataclass(frozen=True)
class MethodProfile:
    """A method's time over all its runs that were profiled."""

    label: str
    milliseconds: float  # wall time of a round
    shares: Mapping[str, float]  # of every kind


def method_profiles(
    jobs: Sequence[Job],
    labels: Sequence[str],
    home: Path,
) -> list[MethodProfile]:
    """The profile of each method; methods without one are left out."""
    by_label: dict[str, list[dict[str, Any]]] = {}
    for job, label in zip(jobs, labels, strict=True):
        path = home / "runs" / job.digest / PROFILE_FILE
        if path.exists():
            profile = json.loads(path.read_text())
            by_label.setdefault(label, []).append(profile)
    return [_together(label, profiles) for label, profiles in by_label.items()]


def _together(label: str, profiles: Sequence[Mapping[str, Any]]) -> MethodProfile:
    seconds = {kind: sum(p["seconds"][kind] for p in profiles) for kind in TIME_KINDS}
    # a run of no time at all would divide by 0
    total = sum(seconds.values()) or 1.0
    rounds = max(1, sum(p["rounds"] for p in profiles))
    wall = sum(p["wall"] for p in profiles) / rounds
    shares = {kind: value / total for kind, value in seconds.items()}
    return MethodProfile(label, 1000 * wall, shares)
