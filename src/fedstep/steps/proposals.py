"""How the next trial is chosen after one that was too long (+1) or too short (-1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar
from fedstep.steps.trial import Bracket, Trial, aimed


class Proposal(Protocol):
    """How the next trial is chosen."""

    def __call__(self, trial: Trial, verdict: Tensor, bracket: Bracket) -> Scalar:
        """The next trial, 0 where nothing is left to try; the bracket has the one just made in it."""
        ...


@dataclass(frozen=True)
class Bisect:
    """Shrink what is too long, grow what is too short, and halve the bracket once both sides are known.

        eta <- shrink * eta,   grow * eta,   (below + above) / 2

    shrink is the search's own; grow None means 1 / shrink.
    """

    grow: float | None = None

    def __post_init__(self) -> None:
        if self.grow is not None and not self.grow > 1:
            raise InputError(
                f"Bisect(grow={self.grow}): the factor must be above 1, or None for 1 / shrink"
            )

    def __call__(self, trial: Trial, verdict: Tensor, bracket: Bracket) -> Scalar:
        longer = trial.eta / bracket.shrink if self.grow is None else trial.eta * self.grow
        moved = torch.where(verdict > 0, trial.eta * bracket.shrink, longer)
        if not bool((bracket.below > 0).any()):  # always so under Armijo
            return moved
        middle = torch.where(bracket.spent, 0.0, (bracket.below + bracket.above) / 2)
        return torch.where(bracket.closed, middle, moved)


@dataclass(frozen=True)
class Factors:
    """Shrink or grow by constant factors whatever is known already, as the SLS program does.

        eta <- max(shrink * eta, floor),   min(grow * eta, cap)

    It can go round in circles until the trials are used up.
    """

    grow: float = 2.0
    cap: float = inf
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not self.grow > 1:
            raise InputError(
                f"Factors(grow={self.grow}): the factor must be above 1; the program uses 2"
            )
        if not 0 <= self.floor < self.cap:
            raise InputError(f"Factors(cap={self.cap}, floor={self.floor}): needs 0 <= floor < cap")

    def __call__(self, trial: Trial, verdict: Tensor, bracket: Bracket) -> Scalar:
        shorter = (trial.eta * bracket.shrink).clamp(min=self.floor)
        return torch.where(verdict > 0, shorter, (trial.eta * self.grow).clamp(max=self.cap))


@dataclass(frozen=True)
class Secant:
    """Neumaier and Kimiaei's choice: a secant step first, then factors, then the geometric mean of the bracket.

        first:   eta <- eta / (2 (1 - mu)) where mu < 1     mu = (f(x + eta d) - f(x)) / (eta <g, d>)
        later:   eta <- factor * eta or eta / factor while one side is unknown, sqrt(below * above) afterwards

    The secant step is the minimiser of the parabola through f(x), <g, d> and the trial. The paper asks for factor > 1; 2 is a
    choice made here, small because a batch's loss says little about far-away points.
    """

    factor: float = 2.0

    def __post_init__(self) -> None:
        if not self.factor > 1:
            raise InputError(f"Secant(factor={self.factor}): the factor must be above 1; try 2")

    def __call__(self, trial: Trial, verdict: Tensor, bracket: Bracket) -> Scalar:
        moved = torch.where(verdict > 0, trial.eta / self.factor, trial.eta * self.factor)
        if bracket.first:
            mu = trial.quotient
            secant = trial.eta / (2 * (1 - mu))
            # a NaN or infinite trial has no parabola, and overflow must not end the search
            return torch.where((mu < 1) & torch.isfinite(secant) & (secant > 0), secant, moved)
        middle = torch.where(bracket.spent, 0.0, (bracket.below * bracket.above).sqrt())
        return torch.where(bracket.closed, middle, moved)


@dataclass(frozen=True)
class Parabola:
    """After a trial that is too long, go to where the parabola through it has the quotient `aim`; else as `Bisect`.

        eta <- eta (1 - aim) / (1 - mu), within [least * eta, shrink * eta]

    A search that begins far too long ends in two or three trials instead of dozens.
    """

    aim: float = 0.6
    least: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.aim < 1:
            raise InputError(
                f"Parabola(aim={self.aim}): the quotient to aim at must lie in (0, 1), above c; try 0.6"
            )
        if not 0 < self.least < 1:
            raise InputError(
                f"Parabola(least={self.least}): the smallest factor must lie in (0, 1); try 0.1"
            )

    def __call__(self, trial: Trial, verdict: Tensor, bracket: Bracket) -> Scalar:
        fitted = aimed(
            trial.eta, trial.quotient, self.aim
        )  # NaN where the trial was: then the smallest factor
        fitted = torch.maximum(torch.nan_to_num(fitted, nan=0.0), self.least * trial.eta)
        shorter = torch.minimum(fitted, bracket.shrink * trial.eta)
        return torch.where(
            (verdict > 0) & ~bracket.closed, shorter, Bisect()(trial, verdict, bracket)
        )
