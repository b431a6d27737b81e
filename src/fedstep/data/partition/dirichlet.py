"""Clients whose mixtures of classes come from a Dirichlet law."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedstep.core.errors import InputError
from fedstep.data.partition.base import (
    check_count,
    check_positive,
    classes_of,
    random,
    share,
)
from fedstep.data.parts import Index, Parts

DRAWS = 10  # of proportions, before samples are moved by hand


@dataclass(frozen=True)
class Dirichlet:
    """Equal clients with class priors from a Dirichlet law, as in the FedExP experiments.

        p_i ~ Dirichlet(alpha 1_C);  |part_i| = N // clients

    Samples are dealt one at a time: a client that is not yet full is drawn uniformly, then a class
    by its prior among the classes that are left, then the next sample of that class in the order of
    the data. A client whose prior has no mass left draws uniformly among those classes. N mod
    clients samples stay undealt, and `note` says so.
    """

    alpha: float
    clients: int

    def __post_init__(self) -> None:
        check_positive(self, "alpha", self.alpha)
        check_count(self, "clients", self.clients)

    def __call__(
        self,
        labels: ArrayLike,
        seed: int = 0,
    ) -> Parts:
        classes = classes_of(labels)
        total = sum(map(len, classes))
        size = share(self, self.clients, total)
        rng = random(seed, "dirichlet")
        # one prior after the other, and all before the dealing: the order of the draws is part of
        # what a seed means, and published partitions depend on it
        priors = [
            _simplex(
                self,
                len(classes),
                rng,
            )
            for _ in range(self.clients)
        ]
        hands = _deal(
            np.stack(priors),
            classes,
            size,
            rng,
        )
        shuffled = [rng.permutation(hand) for hand in hands]
        left = total - size * self.clients
        note = ""
        if left > 0:
            note = f"{left} of {total} samples are left out: {self.clients} clients of {size} each"
        return Parts.of(shuffled, note)


@dataclass(frozen=True)
class ProportionalDirichlet:
    """Every class cut among all clients in proportions from a Dirichlet law.

        q_c ~ Dirichlet(alpha 1_n);  client i gets the share q_ci of class c

    (Hsu et al., 2019; Li et al., 2022.) Sizes differ. A draw that leaves a client below `min_size`
    is repeated, ten times at most; then samples of the largest clients are moved to those below,
    and `note` says how many.
    """

    alpha: float
    clients: int
    min_size: int = 10

    def __post_init__(self) -> None:
        check_positive(self, "alpha", self.alpha)
        check_count(self, "clients", self.clients)
        check_count(self, "min_size", self.min_size)

    def __call__(
        self,
        labels: ArrayLike,
        seed: int = 0,
    ) -> Parts:
        classes = classes_of(labels)
        total = sum(map(len, classes))
        needed = self.clients * self.min_size
        if needed > total:
            raise InputError(
                f"{self}: {self.clients} clients of {self.min_size} need {needed} samples, "
                f"there are {total}: lower clients or min_size"
            )
        # outside of the loop: a repeated draw goes on in the series, it is not the same again
        rng = random(seed, "proportional")
        for _ in range(DRAWS):
            parts = self._draw(classes, rng)
            smallest = min(map(len, parts))
            if smallest >= self.min_size:
                return Parts.of(parts)
        moved = _level(parts, self.min_size)
        note = f"{moved} samples were moved to clients that had fewer than {self.min_size}"
        return Parts.of(parts, note)

    def _draw(
        self,
        classes: Sequence[Index],
        rng: np.random.Generator,
    ) -> list[Index]:
        pieces = []
        for members in classes:
            shares = _simplex(self, self.clients, rng)
            # rounded down at every cut, so that the pieces are the whole class
            cuts = np.cumsum(shares)[:-1] * len(members)
            shuffled = rng.permutation(members)
            pieces.append(np.split(shuffled, cuts.astype(np.int64)))
        parts = []
        for pieces_of_client in zip(*pieces, strict=True):
            part = np.concatenate(pieces_of_client)
            parts.append(rng.permutation(part))
        return parts


def _simplex(
    rule: Dirichlet | ProportionalDirichlet, length: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    point = rng.dirichlet(np.full(length, rule.alpha))
    if not np.isfinite(point).all():
        raise InputError(f"{rule}: alpha is beyond what can be drawn: use 1e-6 to 1e6")
    return point


def _deal(
    priors: NDArray[np.float64],
    classes: Sequence[Index],
    size: int,
    rng: np.random.Generator,
) -> list[list[int]]:
    """Deal one sample after the other.

    Drawing again while a class is used up equals dropping it from every prior, which also ends.
    """
    # lists, not arrays: a million single numbers are taken one by one
    decks = [members[::-1].tolist() for members in classes]
    left = np.ones(len(classes), bool)
    table = _cumulative(priors, left)
    hands: list[list[int]] = [[] for _ in priors]
    waiting = list(range(len(priors)))  # clients that are not full
    draws = rng.random((size * len(priors), 2)).tolist()
    for which_client, which_class in draws:
        place = int(which_client * len(waiting))
        client = waiting[place]
        label = bisect_right(table[client], which_class)
        hands[client].append(decks[label].pop())
        if not decks[label]:
            left[label] = False
            if left.any():
                table = _cumulative(priors, left)
        if len(hands[client]) == size:
            # the last takes the place of the one that is full: no shift of all behind it
            waiting[place] = waiting[-1]
            waiting.pop()
    return hands


def _cumulative(
    priors: NDArray[np.float64],
    left: NDArray[np.bool_],
) -> list[list[float]]:
    masses = np.where(left, priors, 0.0)
    masses[masses.sum(1) == 0] = left  # no mass left: uniform
    sums = np.cumsum(masses, 1)
    # the last sum over itself is exactly 1, above every draw: a class without mass never comes out
    ends: list[list[float]] = (sums / sums[:, -1:]).tolist()
    return ends


def _level(
    parts: list[Index],
    least: int,
) -> int:
    """Move samples of the largest client to the smallest until nobody has too few; how many."""
    moved = 0
    while True:
        sizes = [len(part) for part in parts]
        poor = int(np.argmin(sizes))
        lack = least - sizes[poor]
        if lack <= 0:
            return moved
        # of the largest: it changes least by what it loses
        rich = int(np.argmax(sizes))
        taken = min(lack, sizes[rich] - least)
        rest = sizes[rich] - taken
        parts[poor] = np.concatenate([parts[poor], parts[rich][rest:]])
        parts[rich] = parts[rich][:rest]
        moved += taken
