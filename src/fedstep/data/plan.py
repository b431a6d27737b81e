"""How a client walks through its samples in a round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator


class Order(Protocol):
    """In which order a client sees its samples."""

    def __call__(
        self,
        n: int,
        seed: int,
        round: int,
        client: int,
    ) -> Iterator[Tensor]:
        """An endless series of passes over 0..n-1."""
        ...


@dataclass(frozen=True)
class Shuffled:
    """Every pass in a new random order, keyed by (seed, round, client)."""

    def __call__(
        self,
        n: int,
        seed: int,
        round: int,
        client: int,
    ) -> Iterator[Tensor]:
        # by round and client: who else takes part, and in which order, changes nothing
        g = generator(seed, round, client, "batches")
        while True:
            yield torch.randperm(n, generator=g)


@dataclass(frozen=True)
class InOrder:
    """Every pass in the order of the data."""

    def __call__(
        self,
        n: int,
        seed: int,
        round: int,
        client: int,
    ) -> Iterator[Tensor]:
        while True:
            yield torch.arange(n)


@dataclass(frozen=True)
class Fixed:
    """Given passes, repeated: `Fixed(((2, 0, 1), (0, 1, 2)))`.

    They are cut into batches like any other pass.
    """

    passes: tuple[tuple[int, ...], ...]

    def __call__(
        self,
        n: int,
        seed: int,
        round: int,
        client: int,
    ) -> Iterator[Tensor]:
        while True:
            for indices in self.passes:
                # checked here, because only here is the client known
                fits = indices and min(indices) >= 0 and max(indices) < n
                if not fits:
                    raise InputError(
                        f"Fixed: the pass {indices} does not fit client {client} with {n} samples"
                    )
                yield torch.tensor(indices)


@dataclass(frozen=True)
class BatchWalk:
    """A client's batches of a round, laid end to end."""

    positions: Tensor  # among the client's own samples
    sizes: tuple[int, ...]  # of the batches, one after another


@dataclass(frozen=True)
class Plan:
    """K local steps of mini-batches, or whole epochs; passes are repeated until the steps are done.

    The last batch of a pass is shorter when the batch size does not divide the number of samples.
    """

    batch: int = 50
    steps: int | None = 20
    epochs: int | None = None
    order: Order = Shuffled()

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InputError(f"Plan(batch={self.batch}): the batch size must be 1 or more")
        if (self.steps is None) == (self.epochs is None):
            raise InputError(
                f"Plan(steps={self.steps}, epochs={self.epochs}): give one of them, the other None"
            )
        # one of the two is None, which counts as nothing here
        if (self.steps or 0) < 0 or (self.epochs or 0) < 0:
            raise InputError(f"Plan(steps={self.steps}, epochs={self.epochs}): must be 0 or more")

    def length(self, n: int) -> int:
        """Number of local steps of a client with n samples."""
        # so many whatever a client has: small clients see their samples several times
        if self.steps is not None:
            return self.steps
        batches_a_pass = -(-n // self.batch)  # rounded up
        return (self.epochs or 0) * batches_a_pass

    def __call__(
        self,
        n: int,
        seed: int,
        round: int,
        client: int,
    ) -> list[Tensor]:
        """The batches of a client in a round, as indices into its own samples."""
        walk = self.walk(n, seed, round, client)
        if not walk.sizes:
            return []
        return list(torch.split(walk.positions, list(walk.sizes)))

    def walk(
        self,
        n: int,
        seed: int,
        round: int,
        client: int,
    ) -> BatchWalk:
        """The same, laid end to end: clients with batches of the same sizes stack."""
        total = self.length(n)
        passes: list[Tensor] = []
        sizes: list[int] = []
        endless = self.order(n, seed, round, client)
        # passes are endless: whole ones are taken until there are enough
        while len(sizes) < total:
            order = next(endless)
            passes.append(order)
            sizes += self._cut(len(order))
        del sizes[total:]
        positions = _end_to_end(passes)
        length = sum(sizes)
        # mostly all of it: then no view is made for every client of every round
        if length < len(positions):
            positions = positions[:length]
        return BatchWalk(positions, tuple(sizes))

    def _cut(self, samples: int) -> list[int]:
        """The sizes of the batches of a pass."""
        whole, rest = divmod(samples, self.batch)
        sizes = [self.batch] * whole
        if rest:
            sizes.append(rest)
        return sizes


def _end_to_end(passes: list[Tensor]) -> Tensor:
    if not passes:
        return torch.zeros(0, dtype=torch.int64)
    # most rounds are one pass, which need not be copied
    if len(passes) == 1:
        return passes[0]
    return torch.cat(passes)
