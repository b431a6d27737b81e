"""How a client walks through its samples in a round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator, keys
from fedstep.data.shuffling import shuffled_prefix


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

    purpose: ClassVar[str] = "batches"

    def __call__(
        self,
        n: int,
        seed: int,
        round: int,
        client: int,
    ) -> Iterator[Tensor]:
        # by round and client: who else takes part, and in which order, changes nothing
        g = generator(seed, round, client, self.purpose)
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


class BatchWalk(NamedTuple):
    """A client's batches of a round, laid end to end."""

    positions: Tensor  # among the client's own samples
    sizes: tuple[int, ...]  # of the batches, one after another


@dataclass(frozen=True)
class RoundCut:
    """How passes over so many samples make a round."""

    passes: int
    sizes: tuple[int, ...]  # of the batches
    length: int  # samples of all batches


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
        if type(self.order) is Shuffled:
            (only,) = self.walks([n], seed, round, [client])
            return only
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
        return BatchWalk(_end_to_end(passes, sum(sizes)), tuple(sizes))

    def walks(
        self,
        sizes: Sequence[int],
        seed: int,
        round: int,
        clients: Sequence[int],
    ) -> list[BatchWalk]:
        """`walk` for many clients with so many samples."""
        if type(self.order) is not Shuffled:
            return [
                self.walk(n, seed, round, client) for n, client in zip(sizes, clients, strict=True)
            ]
        # the same draws; what clients of one size have in common is found once
        cuts = {n: self._cut_round(n) for n in set(sizes)}
        # a single sample has one order, whatever is drawn
        drawing = [client for n, client in zip(sizes, clients, strict=True) if n > 1]
        starts = iter(keys([seed, round], drawing, [Shuffled.purpose]))
        draw = torch.Generator()
        walks = []
        for n in sizes:
            cut = cuts[n]
            if n < 2:
                walks.append(BatchWalk(torch.zeros(cut.length, dtype=torch.int64), cut.sizes))
                continue
            draw.manual_seed(next(starts))
            if cut.passes == 1 and cut.length == n:
                walks.append(BatchWalk(torch.randperm(n, generator=draw), cut.sizes))
            elif cut.passes == 1:
                # a part of a pass costs what it is long, not what the client has
                walks.append(BatchWalk(shuffled_prefix(n, cut.length, draw), cut.sizes))
            else:
                passes = [torch.randperm(n, generator=draw) for _ in range(cut.passes)]
                walks.append(BatchWalk(_end_to_end(passes, cut.length), cut.sizes))
        return walks

    def _cut_round(self, n: int) -> RoundCut:
        """The batches of a round of passes over n samples."""
        total = self.length(n)
        passes = 0
        sizes: list[int] = []
        while len(sizes) < total:
            passes += 1
            # no more than there are steps: a pass may have very many batches
            missing = total - len(sizes)
            sizes += self._cut(min(n, missing * self.batch))
        del sizes[total:]
        return RoundCut(passes, tuple(sizes), sum(sizes))

    def _cut(self, samples: int) -> list[int]:
        """The sizes of the batches of a pass."""
        whole, rest = divmod(samples, self.batch)
        sizes = [self.batch] * whole
        if rest:
            sizes.append(rest)
        return sizes


def _end_to_end(passes: list[Tensor], length: int) -> Tensor:
    """The first positions of passes behind each other."""
    if not passes:
        return torch.zeros(0, dtype=torch.int64)
    # most rounds are one whole pass, which need be neither copied nor cut
    positions = passes[0]
    if len(passes) > 1:
        positions = torch.cat(passes)
    if length < positions.numel():
        positions = positions[:length]
    return positions
