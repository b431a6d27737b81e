"""Rules that deal evenly, by sorted shards, or as the data came."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedstep.data.partition.base import by_class, check_count, column, random, share
from fedstep.data.parts import Parts


@dataclass(frozen=True)
class Iid:
    """All samples in random order, cut evenly; sizes differ by at most one."""

    clients: int

    def __post_init__(self) -> None:
        check_count(self, "clients", self.clients)

    def __call__(
        self,
        labels: ArrayLike,
        seed: int = 0,
    ) -> Parts:
        total = len(column(labels))
        share(self, self.clients, total)
        # one permutation and one cut: every partition into equal parts is as likely
        order = random(seed, "iid").permutation(total)
        return Parts.of(np.array_split(order, self.clients))


@dataclass(frozen=True)
class Shards:
    """Samples sorted by label, cut evenly into shards, some of them for each client at random.

    There are clients * per_client shards (McMahan et al., 2017).
    """

    clients: int
    per_client: int = 2

    def __post_init__(self) -> None:
        check_count(self, "clients", self.clients)
        check_count(self, "per_client", self.per_client)

    def __call__(
        self,
        labels: ArrayLike,
        seed: int = 0,
    ) -> Parts:
        # stable: samples of one label stay in their order on every platform
        order = np.argsort(column(labels), kind="stable")
        count = self.clients * self.per_client
        share(self, count, len(order))
        shards = np.array_split(order, count)
        # shards are dealt, not drawn: none goes to two clients
        numbers = random(seed, "shards").permutation(count)
        parts = []
        for hand in numbers.reshape(self.clients, -1):
            part = np.concatenate([shards[number] for number in hand])
            parts.append(part)
        return Parts.of(parts)


@dataclass(frozen=True)
class Natural:
    """One client for each natural id (a writer, a role, a state), in ascending order of the ids.

    Nothing is random.
    """

    def __call__(
        self,
        labels: ArrayLike,
        seed: int = 0,
    ) -> Parts:
        return by_class(labels)
