"""The point to evaluate and to ship. Training always goes on from the last iterate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import ceil

from fedstep.core.errors import InputError
from fedstep.core.vec import Vec


class Readout(ABC):
    """The point to evaluate and to ship."""

    @abstractmethod
    def __call__(
        self,
        mean: Vec,
        old: Vec,
        new: Vec,
        round: int,
        horizon: int,
    ) -> Vec:
        """The readout after a round that moved the server from old to new.

        mean is the readout before it, horizon the number of rounds planned.
        """


@dataclass(frozen=True)
class Last(Readout):
    """The last iterate."""

    def __call__(
        self,
        mean: Vec,
        old: Vec,
        new: Vec,
        round: int,
        horizon: int,
    ) -> Vec:
        return new


@dataclass(frozen=True)
class LastTwo(Readout):
    """The mean of the last two iterates, which extrapolated methods swing between.

    After the first round it is the iterate itself.
    """

    def __call__(
        self,
        mean: Vec,
        old: Vec,
        new: Vec,
        round: int,
        horizon: int,
    ) -> Vec:
        # the start is nobody's iterate: averaging with it would pull the first readout back
        if round == 0:
            return new
        return (old + new) / 2


@dataclass(frozen=True)
class Exponential(Readout):
    """beta * mean + (1 - beta) * x, begun at the first iterate."""

    beta: float = 0.9  # 0: the last iterate

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise InputError(f"Exponential(beta={self.beta}): beta must lie in [0, 1)")

    def __call__(
        self,
        mean: Vec,
        old: Vec,
        new: Vec,
        round: int,
        horizon: int,
    ) -> Vec:
        if round == 0:
            return new
        # the first readout was the first iterate: there is no bias to correct
        return self.beta * mean + (1 - self.beta) * new


@dataclass(frozen=True)
class Tail(Readout):
    """The mean of the iterates of the last `fraction` of the planned rounds.

    Before these rounds it is the last iterate.
    """

    fraction: float = 0.25  # 1: the mean of all iterates

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise InputError(f"Tail(fraction={self.fraction}): the fraction must lie in (0, 1]")

    def __call__(
        self,
        mean: Vec,
        old: Vec,
        new: Vec,
        round: int,
        horizon: int,
    ) -> Vec:
        # the plan must be known: a mean that began too early cannot forget
        first = horizon - ceil(self.fraction * horizon)
        place = round - first
        if place <= 0:
            return new
        # the running mean: no iterate but this one is kept
        return mean + (new - mean) / (place + 1)


@dataclass(frozen=True)
class Polynomial(Readout):
    """The mean of all iterates, later ones counting more (polynomial decay, as DoG uses it).

        mean <- (1 - w) mean + w x_t,   w = (power + 1) / (power + t),  t = 1, 2, ...

    The weight of x_t grows like t^power; power 0 is the plain mean.
    """

    power: float = 8.0  # DoG's: the mean age of an iterate is a tenth of the run

    def __post_init__(self) -> None:
        if not self.power >= 0:
            raise InputError(
                f"Polynomial(power={self.power}): the power must be 0 or more; DoG uses 8"
            )

    def __call__(
        self,
        mean: Vec,
        old: Vec,
        new: Vec,
        round: int,
        horizon: int,
    ) -> Vec:
        # rounds are counted from 0 here and from 1 in the formula; the first weight is 1
        weight = (self.power + 1) / (self.power + round + 1)
        return mean + weight * (new - mean)
