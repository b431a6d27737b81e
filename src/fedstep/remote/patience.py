"""How long a server waits, and how many it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from fedstep.core.errors import InputError


@dataclass(frozen=True)
class Patience:
    """How long is waited for whom, and how many must answer. Nothing is waited for without end."""

    timeout: float = 3600.0  # seconds that a node has for an order
    quorum: float = 0.5  # part of a cohort whose replies must be usable
    tries: int = 3  # how often a round is asked for before the run stops

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise InputError(f"timeout={self.timeout}: give some seconds")
        if not 0 < self.quorum <= 1:
            raise InputError(f"quorum={self.quorum}: it must lie in (0, 1]; try 0.5")
        if self.tries < 1:
            raise InputError(f"tries={self.tries}: give at least 1")

    def needed(self, cohort: Sequence[int]) -> int:
        return max(1, ceil(self.quorum * len(cohort)))
