"""Which clients take part in a round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator

MANY = 32  # clients for each that takes part, above which the others are not put in order
WORD = 2**32  # numbers that a draw of torch's generator can give


def beginning_of_randperm(n: int, k: int, draw: torch.Generator) -> list[int]:
    """The first k numbers of `torch.randperm(n, generator=draw)`, without the other n - k.

    A shuffle from the front swaps place i with one behind it, by one draw of 32 bits. So k draws
    decide the first k places, and a dictionary holds the few that were swapped.

    >>> from fedstep.core.seeds import generator
    >>> begun = beginning_of_randperm(1000, 5, generator("doctest"))
    >>> begun == torch.randperm(1000, generator=generator("doctest"))[:5].tolist()
    True
    """
    pairs = -(-k // 2)  # rounded up: a number of 64 bits is two draws, the first in front
    long = torch.empty(pairs, dtype=torch.int64).random_(-(2**63), None, generator=draw)
    draws: list[int] = []
    for both in long.tolist():
        draws += divmod(both % WORD**2, WORD)
    swapped: dict[int, int] = {}
    first = []
    for i in range(k):
        j = i + draws[i] % (n - i)
        first.append(swapped.get(j, j))
        swapped[j] = swapped.get(i, i)
    return first


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
        if population < MANY * per_round:
            chosen = torch.randperm(population, generator=draw)[:per_round].tolist()
        else:
            chosen = beginning_of_randperm(population, per_round, draw)
        # sorted: sums of floating-point numbers depend on their order
        return sorted(chosen)


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
