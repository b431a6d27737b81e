"""When a trial step is good: verdicts per client, +1 too long, -1 too short, 0 accept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar
from fedstep.steps.proposals import Bisect, Proposal, Secant
from fedstep.steps.trial import Trial


class Condition(ABC):
    """When a trial step is good.

    `judge_slope` is called only where the value was accepted, and only if `asks_slope`: the slope
    at a trial costs a forward and a backward pass.
    """

    proposal: ClassVar[Proposal] = Bisect()  # the next trial, unless the search says otherwise
    two_sided: ClassVar[bool] = True  # whether it knows steps that are too short
    asks_slope: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, trial: Trial) -> Tensor:
        """Judge the value at x + eta d."""

    def judge_slope(
        self,
        trial: Trial,
        slope: Scalar,
    ) -> Tensor:
        """Judge the slope <grad phi(x + eta d), d> of a trial whose value was accepted."""
        return torch.zeros_like(slope, dtype=torch.int32)


@dataclass(frozen=True)
class Armijo(Condition):
    """Accept a step that decreases enough (Armijo, 1966).

        f(x + eta d) <= ref + c * eta * <g, d>

    ref is f(x), or what the reference slot makes of the last values. Where the decrease asked for
    is lost in the rounding of the two values (the noise), f may rise by the noise. Needs <g, d> <
    0. For an L-smooth f and d = -g the accepted step is at least min(start, shrink * 2 (1 - c) /
    L): tests/theorems/test_armijo.py.
    """

    c: float = 0.1  # of the decrease that the slope promises

    two_sided: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.c < 1:
            raise InputError(f"Armijo(c={self.c}): c must lie in (0, 1); the programs use 0.1")

    def __call__(self, trial: Trial) -> Tensor:
        too_long = ~trial.below(self.c)
        return too_long.int()


@dataclass(frozen=True)
class Goldstein(Condition):
    """Accept a step that decreases enough but not as if f were linear (Goldstein, 1965).

        f(x) + (1 - c) * eta * <g, d> <= f(x + eta d) <= ref + c * eta * <g, d>

    Below the left line the step is too short. For a parabola of curvature L along d = -g the
    accepted steps are those in [2 c / L, 2 (1 - c) / L]: tests/steps/test_conditions.py.
    """

    c: float = 0.1  # of the decrease that the slope promises

    proposal: ClassVar[Proposal] = Bisect(2.0)

    def __post_init__(self) -> None:
        if not 0 < self.c <= 0.5:
            raise InputError(
                f"Goldstein(c={self.c}): c must lie in (0, 1/2], or no step is good; "
                "the SLS program uses 0.1"
            )

    def __call__(self, trial: Trial) -> Tensor:
        too_long = ~trial.below(self.c)
        too_short = ~too_long & ~trial.above(1 - self.c)
        return too_long.int() - too_short.int()


@dataclass(frozen=True)
class ImprovedGoldstein(Condition):
    """Accept a step that decreases, but not almost linearly (Neumaier and Kimiaei, 2024).

        mu |mu - 1| >= beta,   mu = (f(x + eta d) - f(x)) / (eta <g, d>)

    That is mu in [m, 1 - m], as with Goldstein for c = m = (1 - sqrt(1 - 4 beta)) / 2, or mu >=
    (1 + sqrt(1 + 4 beta)) / 2: a step that gains more than the slope promised is never too short.
    Otherwise it is too short for mu >= 1/2, else too long. beta must lie in (0, 1/4); 0.02 is a
    choice made here.
    """

    beta: float = 0.02  # how far mu stays from 0 and 1

    proposal: ClassVar[Proposal] = Secant()

    def __post_init__(self) -> None:
        if not 0 < self.beta < 0.25:
            raise InputError(
                f"ImprovedGoldstein(beta={self.beta}): beta must lie in (0, 1/4); try 0.02"
            )

    def __call__(self, trial: Trial) -> Tensor:
        least = (1 - sqrt(1 - 4 * self.beta)) / 2
        steep = (1 + sqrt(1 + 4 * self.beta)) / 2
        too_long = ~trial.below(least)
        # a step that gains more than the slope promised is never too short
        gains_more = ~(trial.value > trial.f + steep * trial.eta * trial.slope)
        almost_linear = ~trial.above(1 - least) & ~gains_more
        too_short = ~too_long & almost_linear
        return too_long.int() - too_short.int()


@dataclass(frozen=True)
class Wolfe(Condition):
    """Accept a step that decreases enough and flattens the slope (Wolfe, 1969).

        f(x + eta d) <= ref + c * eta * <g, d>   and   <g(x + eta d), d> >= c2 * <g, d>

    Where the slope is still steep the step is too short. c < c2 makes sure that good steps exist
    where f is bounded below. c2 = 0.9 is the usual choice for directions that carry their own
    length, 0.1 where a precise minimiser is wanted.
    """

    c: float = 0.1  # of the decrease that the slope promises
    c2: float = 0.9  # of the slope, that may remain

    proposal: ClassVar[Proposal] = Bisect(2.0)
    asks_slope: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_order(self, self.c, self.c2)

    def __call__(self, trial: Trial) -> Tensor:
        too_long = ~trial.below(self.c)
        return too_long.int()

    def judge_slope(
        self,
        trial: Trial,
        slope: Scalar,
    ) -> Tensor:
        too_short = slope < self.c2 * trial.slope
        return -too_short.int()


@dataclass(frozen=True)
class StrongWolfe(Condition):
    """Accept a step that decreases enough at a point that is nearly flat along d (Wolfe, 1969).

        f(x + eta d) <= ref + c * eta * <g, d>   and   |<g(x + eta d), d>| <= c2 * |<g, d>|

    Where the slope is still steep downwards the step is too short, where it is steep upwards too
    long: between two such steps there is always a good one, so the bisection cannot miss it.
    """

    c: float = 0.1  # of the decrease that the slope promises
    c2: float = 0.9  # of the slope, that may remain

    proposal: ClassVar[Proposal] = Bisect(2.0)
    asks_slope: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_order(self, self.c, self.c2)

    def __call__(self, trial: Trial) -> Tensor:
        too_long = ~trial.below(self.c)
        return too_long.int()

    def judge_slope(
        self,
        trial: Trial,
        slope: Scalar,
    ) -> Tensor:
        steep = self.c2 * trial.slope
        too_long = slope > -steep
        too_short = slope < steep
        return too_long.int() - too_short.int()


def _check_order(
    condition: Condition,
    c: float,
    c2: float,
) -> None:
    # only with c < c2 is there a good step wherever f is bounded below
    if not 0 < c < c2 < 1:
        raise InputError(
            f"{type(condition).__name__}(c={c}, c2={c2}): needs 0 < c < c2 < 1; try 0.1 and 0.9"
        )
