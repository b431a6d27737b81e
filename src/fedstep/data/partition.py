"""Dealing pooled samples to clients."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedstep.core.errors import InputError
from fedstep.core.seeds import key
from fedstep.data.parts import Index, Parts


def _positive(rule: object, name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise InputError(f"{rule}: {name} must be positive and finite")


def _count(rule: object, name: str, value: int) -> None:
    if not isinstance(value, int) or value < 1:
        raise InputError(f"{rule}: {name} must be a whole number, 1 or more")


class Partitioner(Protocol):
    """A rule that deals the samples with these labels (or natural ids) to clients; a seed always gives the same parts."""

    def __call__(self, labels: ArrayLike, seed: int = 0) -> Parts: ...


@dataclass(frozen=True)
class Dirichlet:
    """Equal clients with class priors from a Dirichlet law, as in the FedExP experiments.

        p_i ~ Dirichlet(alpha 1_C);  |part_i| = N // clients

    Samples are dealt one at a time: a client that is not yet full is drawn uniformly, then a class by its prior among the
    classes that are left, then the next sample of that class in the order of the data. A client whose prior has no mass
    left draws uniformly among those classes. N mod clients samples stay undealt, and `note` says so.
    """

    alpha: float
    clients: int

    def __post_init__(self) -> None:
        _positive(self, "alpha", self.alpha)
        _count(self, "clients", self.clients)

    def __call__(self, labels: ArrayLike, seed: int = 0) -> Parts:
        classes = _classes(labels)
        total = sum(map(len, classes))
        size = _size(self, self.clients, total)
        rng = np.random.default_rng(key(seed, "partition", "dirichlet"))
        priors = np.stack([_simplex(self, len(classes), rng) for _ in range(self.clients)])
        dealt = _deal(priors, classes, size, rng)
        left = total - size * self.clients
        note = (
            f"{left} of {total} samples are left out: {self.clients} clients of {size} each"
            if left
            else ""
        )
        return Parts((rng.permutation(part) for part in dealt), note)


@dataclass(frozen=True)
class ProportionalDirichlet:
    """Every class cut among all clients in proportions from a Dirichlet law (Hsu et al., 2019; Li et al., 2022).

        q_c ~ Dirichlet(alpha 1_n);  client i gets the share q_ci of class c

    Sizes differ. A draw that leaves a client below `min_size` is repeated, ten times at most; then samples of the largest
    clients are moved to those below, and `note` says how many.
    """

    alpha: float
    clients: int
    min_size: int = 10

    def __post_init__(self) -> None:
        _positive(self, "alpha", self.alpha)
        _count(self, "clients", self.clients)
        _count(self, "min_size", self.min_size)

    def __call__(self, labels: ArrayLike, seed: int = 0) -> Parts:
        classes = _classes(labels)
        total = sum(map(len, classes))
        if self.clients * self.min_size > total:
            raise InputError(
                f"{self}: {self.clients} clients of {self.min_size} need {self.clients * self.min_size} samples, "
                f"there are {total}: lower clients or min_size"
            )
        rng = np.random.default_rng(key(seed, "partition", "proportional"))
        for _ in range(10):
            parts = self._draw(classes, rng)
            if min(map(len, parts)) >= self.min_size:
                return Parts(parts)
        moved = _level(parts, self.min_size)
        return Parts(
            parts, f"{moved} samples were moved to clients that had fewer than {self.min_size}"
        )

    def _draw(self, classes: list[Index], rng: np.random.Generator) -> list[Index]:
        pieces = []
        for members in classes:
            shares = _simplex(self, self.clients, rng)
            cuts = (np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
            pieces.append(np.split(rng.permutation(members), cuts))
        return [rng.permutation(np.concatenate(own)) for own in zip(*pieces, strict=True)]


@dataclass(frozen=True)
class Iid:
    """All samples in random order, cut evenly; sizes differ by at most one."""

    clients: int

    def __post_init__(self) -> None:
        _count(self, "clients", self.clients)

    def __call__(self, labels: ArrayLike, seed: int = 0) -> Parts:
        total = len(_column(labels))
        _size(self, self.clients, total)
        rng = np.random.default_rng(key(seed, "partition", "iid"))
        return Parts(np.array_split(rng.permutation(total), self.clients))


@dataclass(frozen=True)
class Shards:
    """Samples sorted by label, cut evenly into clients * per_client shards, dealt at random (McMahan et al., 2017)."""

    clients: int
    per_client: int = 2

    def __post_init__(self) -> None:
        _count(self, "clients", self.clients)
        _count(self, "per_client", self.per_client)

    def __call__(self, labels: ArrayLike, seed: int = 0) -> Parts:
        order = np.argsort(_column(labels), kind="stable")
        count = self.clients * self.per_client
        _size(self, count, len(order))
        shards = np.array_split(order, count)
        hands = (
            np.random.default_rng(key(seed, "partition", "shards"))
            .permutation(count)
            .reshape(self.clients, -1)
        )
        return Parts(np.concatenate([shards[s] for s in hand]) for hand in hands)


@dataclass(frozen=True)
class Natural:
    """One client for each natural id (a writer, a role, a state), in ascending order of the ids; nothing is random."""

    def __call__(self, labels: ArrayLike, seed: int = 0) -> Parts:
        return Parts(_classes(labels))


class Law(Protocol):
    """Positive weights of clients."""

    def __call__(self, clients: int, rng: np.random.Generator) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class LogNormal:
    """w = exp(sigma z), z ~ N(0, 1)."""

    sigma: float = 1.0

    def __post_init__(self) -> None:
        _positive(self, "sigma", self.sigma)

    def __call__(self, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
        logs: NDArray[np.float64] = self.sigma * rng.standard_normal(clients)
        return _relative(logs)


@dataclass(frozen=True)
class Power:
    """P(w > t) = t^-exponent for t >= 1: few clients hold most of the samples when the exponent is near 1."""

    exponent: float = 1.5

    def __post_init__(self) -> None:
        _positive(self, "exponent", self.exponent)

    def __call__(self, clients: int, rng: np.random.Generator) -> NDArray[np.float64]:
        logs: NDArray[np.float64] = rng.standard_exponential(clients) / self.exponent
        return _relative(logs)


@dataclass(frozen=True)
class SizeLaw:
    """Samples in random order, cut into clients of unequal size: |part_i| = 1 + (N - clients) w_i / sum w, rounded."""

    clients: int
    law: Law = LogNormal()

    def __post_init__(self) -> None:
        _count(self, "clients", self.clients)

    def __call__(self, labels: ArrayLike, seed: int = 0) -> Parts:
        total = len(_column(labels))
        _size(self, self.clients, total)
        rng = np.random.default_rng(key(seed, "partition", "sizes"))
        weights = self.law(self.clients, rng)
        cuts = np.cumsum(weights)[:-1] / weights.sum() * (total - self.clients)
        ends = np.rint(cuts).astype(np.int64) + np.arange(1, self.clients)
        return Parts(np.split(rng.permutation(total), ends))


def _relative(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = np.exp(
        logs - logs.max()
    )  # only ratios matter, and these cannot overflow
    return weights


def _simplex(
    rule: Dirichlet | ProportionalDirichlet, length: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    point = rng.dirichlet(np.full(length, rule.alpha))
    if not np.isfinite(point).all():
        raise InputError(f"{rule}: alpha is beyond what can be drawn: use 1e-6 to 1e6")
    return point


def _deal(
    priors: NDArray[np.float64], classes: list[Index], size: int, rng: np.random.Generator
) -> list[list[int]]:
    """Deal one by one; drawing again while a class is used up equals dropping it from every prior, which also ends."""
    decks = [members[::-1].tolist() for members in classes]
    left = np.ones(len(classes), bool)
    table = _cumulative(priors, left)
    hands: list[list[int]] = [[] for _ in priors]
    waiting = list(range(len(priors)))  # clients that are not full
    draws = rng.random((size * len(priors), 2)).tolist()
    for u, v in draws:
        place = int(u * len(waiting))
        client = waiting[place]
        label = bisect_right(table[client], v)
        hands[client].append(decks[label].pop())
        if not decks[label]:
            left[label] = False
        if not decks[label] and left.any():
            table = _cumulative(priors, left)
        if len(hands[client]) == size:
            waiting[place] = waiting[-1]
            waiting.pop()
    return hands


def _cumulative(priors: NDArray[np.float64], left: NDArray[np.bool_]) -> list[list[float]]:
    masses = np.where(left, priors, 0.0)
    masses[masses.sum(1) == 0] = left  # no mass left: uniform
    sums = np.cumsum(masses, 1)
    # the last sum over itself is exactly 1, above every draw: a class without mass can never come out
    ends: list[list[float]] = (sums / sums[:, -1:]).tolist()
    return ends


def _level(parts: list[Index], least: int) -> int:
    """Move the last samples of the largest client to the smallest until nobody has fewer than `least`; how many moved."""
    moved = 0
    while (lack := least - len(parts[(poor := int(np.argmin([len(p) for p in parts])))])) > 0:
        rich = int(np.argmax([len(p) for p in parts]))
        take = min(lack, len(parts[rich]) - least)
        parts[poor] = np.concatenate([parts[poor], parts[rich][len(parts[rich]) - take :]])
        parts[rich] = parts[rich][: len(parts[rich]) - take]
        moved += take
    return moved


def _column(labels: ArrayLike) -> NDArray[np.generic]:
    column = np.asarray(labels)
    if column.ndim != 1 or len(column) == 0:
        raise InputError(f"the labels have shape {column.shape}: give one label for each sample")
    return column


def _classes(labels: ArrayLike) -> list[Index]:
    """Indices of the samples of each class that occurs, ascending."""
    column = _column(labels)
    _, place = np.unique(column, return_inverse=True)
    order = np.argsort(place, kind="stable").astype(np.int64)
    return np.split(order, np.cumsum(np.bincount(place))[:-1])


def _size(rule: object, clients: int, total: int) -> int:
    if clients > total:
        raise InputError(
            f"{rule}: {total} samples do not suffice for {clients} parts: lower clients"
        )
    return total // clients
