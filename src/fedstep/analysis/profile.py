"""Where the time of a study's runs went, by kind and method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedstep.run.files import read_sealed
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
            profile = read_sealed(path, ("seconds", "rounds", "wall"))
            of_method = by_label.setdefault(label, [])
            of_method.append(profile)
    return [_together(label, profiles) for label, profiles in by_label.items()]


def _together(
    label: str,
    profiles: Sequence[Mapping[str, Any]],
) -> MethodProfile:
    seconds = {}
    for kind in TIME_KINDS:
        seconds[kind] = sum(profile["seconds"][kind] for profile in profiles)
    # a run of no time at all would divide by 0
    total = sum(seconds.values()) or 1.0
    rounds = sum(profile["rounds"] for profile in profiles)
    # sums first, one division: long runs count more than short ones
    wall = sum(profile["wall"] for profile in profiles) / max(1, rounds)
    shares = {kind: value / total for kind, value in seconds.items()}
    return MethodProfile(
        label=label,
        milliseconds=1000 * wall,
        shares=shares,
    )
