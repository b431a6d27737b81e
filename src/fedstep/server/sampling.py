"""Which clients take part in a round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator


class Sampling(ABC):
    """Which clients take part in a round."""

    @abstractmethod
    def __call__(
        self,
        population: int,
        per_round: int,
        seed: int,
        round: int,
    ) -> list[int]:
        """The clients of a round, in the order in which they are summed."""


@dataclass(frozen=True)
class Uniform(Sampling):
    """Uniform without replacement, keyed by (seed, round)."""

    def __call__(
        self,
        population: int,
        per_round: int,
        seed: int,
        round: int,
    ) -> list[int]:
        draw = generator(seed, round, "sample")
        # all clients are put in order, so that more a round means the same ones and some more
        order = torch.randperm(population, generator=draw)
        # sorted: sums of floating-point numbers depend on their order
        return sorted(int(i) for i in order[:per_round])


@dataclass(frozen=True)
class Given(Sampling):
    """A fixed schedule, one tuple of client numbers a round."""

    schedule: tuple[tuple[int, ...], ...]

    def __call__(
        self,
        population: int,
        per_round: int,
        seed: int,
        round: int,
    ) -> list[int]:
        # a schedule is of one experiment: going round it again would repeat its clients in silence
        if round >= len(self.schedule):
            raise InputError(
                f"Given: the schedule has {len(self.schedule)} rounds, round {round} was asked for"
            )
        return list(self.schedule[round])
