"""Which clients take part in a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator


class Sampling(Protocol):
    """Which clients take part in a round."""

    def __call__(self, population: int, per_round: int, seed: int, round: int) -> list[int]:
        """The clients of a round, in the order in which they are summed."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Uniform without replacement, keyed by (seed, round)."""

    def __call__(self, population: int, per_round: int, seed: int, round: int) -> list[int]:
        chosen = torch.randperm(population, generator=generator(seed, round, "sample"))[:per_round]
        return sorted(int(i) for i in chosen)


@dataclass(frozen=True)
class Given:
    """A fixed schedule, one tuple of client numbers a round."""

    schedule: tuple[tuple[int, ...], ...]

    def __call__(self, population: int, per_round: int, seed: int, round: int) -> list[int]:
        if round >= len(self.schedule):
            raise InputError(
                f"Given: the schedule has {len(self.schedule)} rounds, round {round} was asked for"
            )
        return list(self.schedule[round])
