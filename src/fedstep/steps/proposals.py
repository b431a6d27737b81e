"""How the next trial is chosen after one that was too long (+1) or too short (-1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.looks import surely_none
from fedstep.core.vec import Scalar
from fedstep.steps.trial import Bracket, Trial, aimed


class Proposal(ABC):
    """How the next trial is chosen."""

    @abstractmethod
    def __call__(
        self,
        trial: Trial,
        verdict: Tensor,
        bracket: Bracket,
    ) -> Scalar:
        """The next trial, 0 where nothing is left to try.

        The bracket has the trial just made in it.
        """


@dataclass(frozen=True)
class Bisect(Proposal):
    """Shrink what is too long, grow what is too short, halve the bracket once it is closed.

        eta <- shrink * eta,   grow * eta,   (below + above) / 2

    shrink is the search's own; grow None means 1 / shrink.
    """

    grow: float | None = None  # None: 1 / shrink

    def __post_init__(self) -> None:
        if self.grow is not None and not self.grow > 1:
            raise InputError(
                f"Bisect(grow={self.grow}): the factor must be above 1, or None for 1 / shrink"
            )

    def __call__(
        self,
        trial: Trial,
        verdict: Tensor,
        bracket: Bracket,
    ) -> Scalar:
        shorter = trial.eta * bracket.shrink
        if self.grow is None:
            longer = trial.eta / bracket.shrink
        else:
            longer = trial.eta * self.grow
        moved = torch.where(verdict > 0, shorter, longer)
        # Under Armijo no step is ever too short: the rest would be computed for nothing.
        if surely_none(bracket.below > 0):
            return moved
        middle = (bracket.below + bracket.above) / 2
        middle = torch.where(bracket.spent, 0.0, middle)
        return torch.where(bracket.closed, middle, moved)


@dataclass(frozen=True)
class Factors(Proposal):
    """Shrink or grow by constant factors whatever is known already, as the SLS program does.

        eta <- max(shrink * eta, floor),   min(grow * eta, cap)

    It can go round in circles until the trials are used up.
    """

    grow: float = 2.0  # factor after a trial that is too short
    cap: float = inf  # no trial is longer
    floor: float = 0.0  # no trial is shorter

    def __post_init__(self) -> None:
        if not self.grow > 1:
            raise InputError(
                f"Factors(grow={self.grow}): the factor must be above 1; the program uses 2"
            )
        if not 0 <= self.floor < self.cap:
            raise InputError(f"Factors(cap={self.cap}, floor={self.floor}): needs 0 <= floor < cap")

    def __call__(
        self,
        trial: Trial,
        verdict: Tensor,
        bracket: Bracket,
    ) -> Scalar:
        shorter = (trial.eta * bracket.shrink).clamp(min=self.floor)
        longer = (trial.eta * self.grow).clamp(max=self.cap)
        return torch.where(verdict > 0, shorter, longer)


@dataclass(frozen=True)
class Secant(Proposal):
    """Neumaier and Kimiaei's choice: a secant step, then factors, then the bracket's middle.

        first:   eta <- eta / (2 (1 - mu)) where mu < 1
        later:   eta <- factor * eta or eta / factor while one side is unknown,
                 sqrt(below * above) afterwards
        mu = (f(x + eta d) - f(x)) / (eta <g, d>)

    The secant step is the minimiser of the parabola through f(x), <g, d> and the trial. The paper
    asks for factor > 1; 2 is a choice made here, small because a batch's loss says little about
    far-away points.
    """

    factor: float = 2.0  # while one side of the bracket is unknown

    def __post_init__(self) -> None:
        if not self.factor > 1:
            raise InputError(f"Secant(factor={self.factor}): the factor must be above 1; try 2")

    def __call__(
        self,
        trial: Trial,
        verdict: Tensor,
        bracket: Bracket,
    ) -> Scalar:
        shorter = trial.eta / self.factor
        longer = trial.eta * self.factor
        moved = torch.where(verdict > 0, shorter, longer)
        if bracket.first:
            mu = trial.quotient
            secant = trial.eta / (2 * (1 - mu))
            # a NaN or infinite trial has no parabola, and overflow must not end the search
            usable = (mu < 1) & torch.isfinite(secant) & (secant > 0)
            return torch.where(usable, secant, moved)
        middle = (bracket.below * bracket.above).sqrt()
        middle = torch.where(bracket.spent, 0.0, middle)
        return torch.where(bracket.closed, middle, moved)


@dataclass(frozen=True)
class Parabola(Proposal):
    """After a trial that is too long, go to where the parabola through it has the quotient `aim`.

        eta <- eta (1 - aim) / (1 - mu), within [least * eta, shrink * eta]

    A search that begins far too long ends in two or three trials instead of dozens. In all other
    cases it does as `Bisect`.
    """

    aim: float = 0.6  # quotient to aim at, above the condition's c
    least: float = 0.1  # smallest factor from one trial to the next

    def __post_init__(self) -> None:
        if not 0 < self.aim < 1:
            raise InputError(
                f"Parabola(aim={self.aim}): the quotient to aim at must lie in (0, 1), above c; "
                "try 0.6"
            )
        if not 0 < self.least < 1:
            raise InputError(
                f"Parabola(least={self.least}): the smallest factor must lie in (0, 1); try 0.1"
            )

    def __call__(
        self,
        trial: Trial,
        verdict: Tensor,
        bracket: Bracket,
    ) -> Scalar:
        fitted = aimed(trial.eta, trial.quotient, self.aim)
        # NaN where the trial was: there is no parabola, so the smallest factor is taken
        fitted = torch.nan_to_num(fitted, nan=0.0)
        fitted = torch.maximum(fitted, self.least * trial.eta)
        shorter = torch.minimum(fitted, bracket.shrink * trial.eta)
        bisected = Bisect()(trial, verdict, bracket)
        return torch.where(
            (verdict > 0) & ~bracket.closed,
            shorter,
            bisected,
        )
