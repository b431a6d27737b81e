"""Where a search begins.

The papers number the reset rules differently (the federated paper: 0 keep, 1 restart, 2 grow; the
SLS program: 0 keep, 1 grow, 2 restart), so here they have names only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec
from fedstep.steps.trial import SearchResult, SearchStart, aimed


class Reset(ABC):
    """Where a search begins."""

    def init(self, x: Vec) -> NewState:
        """What it remembers besides the last accepted step."""
        return {}

    @abstractmethod
    def __call__(
        self,
        begin: SearchStart,
        state: State,
    ) -> Scalar:
        """The first trial; 0 means that there is nothing to search for."""

    def after(
        self,
        search: SearchResult,
        state: State,
    ) -> NewState:
        """The state after a search."""
        return dict(state)


@dataclass(frozen=True)
class Keep(Reset):
    """Begin at the last accepted step: steps never grow within a round."""

    def __call__(
        self,
        begin: SearchStart,
        state: State,
    ) -> Scalar:
        return begin.last


@dataclass(frozen=True)
class Restart(Reset):
    """Begin at the start value every time: most trials, longest steps."""

    def __call__(
        self,
        begin: SearchStart,
        state: State,
    ) -> Scalar:
        return begin.start


@dataclass(frozen=True)
class Grow(Reset):
    """Begin a little above the last accepted step.

        first = last * factor^(1 / per)

    `per` is the number of steps over which a step may grow by `factor`; None means one pass over
    the client's data, the paper's factor^(b / n) for batch size b and n samples.
    """

    factor: float = 2.0  # by which a step may grow
    per: float | None = None  # over so many steps; None: one epoch

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise InputError(
                f"Grow(factor={self.factor}): the factor must be positive; the program uses 2"
            )
        if self.per is not None and not self.per > 0:
            raise InputError(
                f"Grow(per={self.per}): the number of steps must be positive, or None for one epoch"
            )

    def __call__(
        self,
        begin: SearchStart,
        state: State,
    ) -> Scalar:
        if self.per is None:
            epochs = begin.share.to(begin.last.dtype)
            return begin.last * torch.pow(self.factor, epochs)
        return begin.last * float(self.factor ** (1 / self.per))


@dataclass(frozen=True)
class PolyakGuess(Reset):
    """Begin at Polyak's step, cut as often as the searches before had to (Galli et al., 2023).

        first = max(least, shrink^l * (f - lower) / (c |<g, d>| + eps))
        l <- max(l + trials - 2, 0)

    <g, d> is -|g|^2 for steepest descent, and trials - 1 is the number of cuts, so l falls by one
    after a search that needed none. `lower` is a lower bound of the loss; where f equals it
    nothing is searched for. remember False keeps l at 0.
    """

    c: float = 0.1  # of Polyak's step
    lower: float = 0.0  # bound of the loss from below
    least: float = 1e-6  # the shortest first trial
    remember: bool = True  # how often the searches before had to cut
    eps: float = 1e-8  # in the denominator, as the program has it

    def __post_init__(self) -> None:
        if not self.c > 0:
            raise InputError(f"PolyakGuess(c={self.c}): c must be positive; PoNoS uses 0.1")
        if not self.least > 0:
            raise InputError(
                f"PolyakGuess(least={self.least}): the smallest first trial must be positive; "
                "try 1e-6"
            )

    def init(self, x: Vec) -> NewState:
        if not self.remember:
            return {}
        return {"cuts": x.new_zeros(x.shape[:-1])}

    def __call__(
        self,
        begin: SearchStart,
        state: State,
    ) -> Scalar:
        guess = (begin.f - self.lower) / (self.c * begin.slope.abs() + self.eps)
        if self.remember:
            guess = guess * torch.pow(begin.shrink, state["cuts"])
        solved = begin.f == self.lower
        return torch.where(
            solved,
            torch.zeros_like(guess),
            guess.clamp(min=self.least),
        )

    def after(
        self,
        search: SearchResult,
        state: State,
    ) -> NewState:
        if not self.remember:
            return {}
        cuts = state["cuts"] + search.trials - 2
        return {"cuts": cuts.clamp(min=0)}


@dataclass(frozen=True)
class Fitted(Reset):
    """Begin where the last searches say that a trial will pass: one trial a step, nearly always.

        limit = eta (1 - aim) / (1 - mu)
        mu = (f(x + eta d) - f(x)) / (eta <g, d>) of the accepted trial
        first = exp(mean of log limit over the last steps), within [last / grow, last * grow]

    Every accepted trial has shown phi at two points and its slope at one, so the parabola through
    them says where Armijo would have stopped: aim = c would be the longest step it accepts there,
    and a larger aim leaves room for the next batch, which is another. The mean forgets by
    `memory` a step; a step that is too short by `grow` or more grows by it at once, and so does
    one that changed phi only within rounding. Growing costs no trial that is refused, unlike with
    `Grow`. Aim above the condition's c; a round begins at its start value.
    """

    aim: float = 0.6  # quotient to aim at; 0.6 is 0.8 / curvature
    grow: float = 2.0  # largest change from one step to the next
    memory: float = 0.7  # of the mean, for one step

    def __post_init__(self) -> None:
        if not 0 < self.aim < 1:
            raise InputError(
                f"Fitted(aim={self.aim}): the quotient to aim at must lie in (0, 1), above c; "
                "try 0.6"
            )
        if not self.grow > 1:
            raise InputError(
                f"Fitted(grow={self.grow}): the largest factor of one step must be above 1; try 2"
            )
        if not 0 <= self.memory < 1:
            raise InputError(
                f"Fitted(memory={self.memory}): the memory must lie in [0, 1); try 0.7"
            )

    def init(self, x: Vec) -> NewState:
        # NaN: no search has been made, and the first guess is the start value
        return {"log": x.new_full(x.shape[:-1], torch.nan)}

    def __call__(
        self,
        begin: SearchStart,
        state: State,
    ) -> Scalar:
        shortest = begin.last / self.grow
        longest = begin.last * self.grow
        guess = torch.maximum(state["log"].exp(), shortest)
        guess = torch.minimum(guess, longest)
        unknown = torch.isnan(state["log"])
        return torch.where(unknown, begin.last, guess)

    def after(
        self,
        search: SearchResult,
        state: State,
    ) -> NewState:
        limit = aimed(search.step, search.quotient, self.aim)
        most = search.step * self.grow
        mean = torch.lerp(
            limit.log(),
            state["log"],
            self.memory,
        )
        mean = torch.where(
            torch.isnan(state["log"]),
            limit.log(),
            mean,
        )
        # Far too short: the mean would be slow to notice. A change of phi within rounding is no
        # evidence of a curvature either: read as one it would shorten the steps for ever.
        too_short = (limit >= most) | search.null
        mean = torch.where(too_short, most.log(), mean)
        forgotten = torch.full_like(mean, torch.nan)
        return {
            "log": torch.where(
                search.step > 0,
                mean,
                forgotten,
            )
        }
