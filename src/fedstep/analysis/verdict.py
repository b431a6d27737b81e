"""What running something again has shown, and how far another machine may be away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan

from fedstep.run.cpu import cpu_kind
from fedstep.run.driver import program_versions

# Standard deviations over seeds that another machine may be away from what was measured here.
SPREADS = 3.0
LEAST_SPREAD = 0.01  # of the score: three seeds may agree by chance


@dataclass(frozen=True)
class Verdict:
    """Whether it agrees, and why."""

    agrees: bool
    text: str

    @property
    def line(self) -> str:
        """For a terminal; what does not agree is to be seen."""
        if self.agrees:
            return f"agrees: {self.text}"
        return f"DOES NOT AGREE: {self.text}"


@dataclass(frozen=True)
class Machine:
    """Where something was recorded."""

    cpu: str  # its kind
    versions: Mapping[str, str]  # of programs

    @property
    def torch(self) -> str | None:
        return self.versions.get("torch")

    def is_like_this_one(self) -> bool:
        """Whether the same bits can be asked for: the same kind of CPU and the same torch."""
        return self.cpu == cpu_kind() and self.torch == program_versions()["torch"]


def score_verdict(
    name: str,
    before: float,
    now: float,
    deviation: float,
    machine: Machine,
) -> Verdict:
    """A score beside the one that another machine has recorded; deviation: over the seeds."""
    allowed = LEAST_SPREAD * abs(before)
    # of one seed there is none
    if not isnan(deviation):
        allowed = max(SPREADS * deviation, allowed)
    text = (
        f"{name} {now:.4f}, recorded {before:.4f}, may differ by {allowed:.4f} "
        f"(recorded on {machine.cpu} with torch {machine.torch})"
    )
    # not `>`: a score that is no number agrees with nothing
    return Verdict(abs(now - before) <= allowed, text)
