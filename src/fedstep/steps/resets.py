"""Where a search begins, and what becomes of it when it fails.

The papers number the reset rules differently (the federated paper: 0 keep, 1 restart, 2 grow; the SLS program: 0 keep, 1 grow,
2 restart), so here they have names only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar, State, Vec
from fedstep.steps.trial import Ended, Point, Took, aimed


class Reset:
    """Where a search begins; a reset overrides what it needs."""

    def init(self, x: Vec) -> dict[str, Tensor]:
        """What it remembers besides the last accepted step."""
        return {}

    def __call__(self, point: Point, state: State) -> Scalar:
        """The first trial; 0 means that there is nothing to search for."""
        raise NotImplementedError

    def after(self, took: Took, state: State) -> dict[str, Tensor]:
        """The state after a search."""
        return dict(state)


@dataclass(frozen=True)
class Keep(Reset):
    """Begin at the last accepted step: steps never grow within a round."""

    def __call__(self, point: Point, state: State) -> Scalar:
        return point.last


@dataclass(frozen=True)
class Restart(Reset):
    """Begin at the start value every time: most trials, longest steps."""

    def __call__(self, point: Point, state: State) -> Scalar:
        return point.start


@dataclass(frozen=True)
class Grow(Reset):
    """Begin a little above the last accepted step.

        first = last * factor^(1 / per)

    `per` is the number of steps over which a step may grow by `factor`; None means one pass over the client's data, the
    paper's factor^(b / n) for batch size b and n samples.
    """

    factor: float = 2.0
    per: float | None = None

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise InputError(
                f"Grow(factor={self.factor}): the factor must be positive; the paper uses 2"
            )
        if self.per is not None and not self.per > 0:
            raise InputError(
                f"Grow(per={self.per}): the number of steps must be positive, or None for one epoch"
            )

    def __call__(self, point: Point, state: State) -> Scalar:
        if self.per is None:
            return point.last * torch.pow(self.factor, point.share.to(point.last.dtype))
        return point.last * float(self.factor ** (1 / self.per))


@dataclass(frozen=True)
class PolyakGuess(Reset):
    """Begin at Polyak's step, cut as often as the searches before had to cut (Galli, Rauhut and Schmidt, 2023).

        first = max(least, shrink^l * (f - lower) / (c |<g, d>| + eps));   l <- max(l + trials - 2, 0)

    <g, d> is -|g|^2 for steepest descent, and trials - 1 is the number of cuts, so l falls by one after a search that needed
    none. `lower` is a lower bound of the loss; where f equals it nothing is searched for. remember False keeps l at 0.
    """

    c: float = 0.1
    lower: float = 0.0
    least: float = 1e-6
    remember: bool = True
    eps: float = 1e-8

    def __post_init__(self) -> None:
        if not self.c > 0:
            raise InputError(f"PolyakGuess(c={self.c}): c must be positive; PoNoS uses 0.1")
        if not self.least > 0:
            raise InputError(
                f"PolyakGuess(least={self.least}): the smallest first trial must be positive; try 1e-6"
            )

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"cuts": x.new_zeros(x.shape[:-1])} if self.remember else {}

    def __call__(self, point: Point, state: State) -> Scalar:
        guess = (point.f - self.lower) / (self.c * point.slope.abs() + self.eps)
        if self.remember:
            guess = guess * torch.pow(point.shrink, state["cuts"])
        return torch.where(
            point.f == self.lower, torch.zeros_like(guess), guess.clamp(min=self.least)
        )

    def after(self, took: Took, state: State) -> dict[str, Tensor]:
        return {name: (cuts + took.trials - 2).clamp(min=0) for name, cuts in state.items()}


@dataclass(frozen=True)
class Fitted(Reset):
    """Begin where the last searches say that a trial will pass: one trial a step, nearly always.

        limit = eta (1 - aim) / (1 - mu),   mu = (f(x + eta d) - f(x)) / (eta <g, d>) of the accepted trial
        first = exp(mean of log limit over the last steps), within [last / grow, last * grow]

    Every accepted trial has told phi at two points and its slope at one, so the parabola through them says where Armijo
    would have stopped: aim = c would be the longest step it accepts there, and a larger aim leaves room for the next batch, which
    is another. The mean forgets by `memory` a step; a step that is too short by `grow` or more grows by it at once. Growing costs
    no trial that is refused, unlike with `Grow`. Aim above the condition's c; a round begins at its start value.
    """

    aim: float = 0.6
    grow: float = 2.0
    memory: float = 0.7

    def __post_init__(self) -> None:
        if not 0 < self.aim < 1:
            raise InputError(
                f"Fitted(aim={self.aim}): the quotient to aim at must lie in (0, 1), above c; try 0.6"
            )
        if not self.grow > 1:
            raise InputError(
                f"Fitted(grow={self.grow}): the largest factor of one step must be above 1; try 2"
            )
        if not 0 <= self.memory < 1:
            raise InputError(
                f"Fitted(memory={self.memory}): the memory must lie in [0, 1); try 0.7"
            )

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"log": x.new_full(x.shape[:-1], torch.nan)}

    def __call__(self, point: Point, state: State) -> Scalar:
        fitted = torch.minimum(
            torch.maximum(state["log"].exp(), point.last / self.grow), point.last * self.grow
        )
        return torch.where(torch.isnan(state["log"]), point.last, fitted)

    def after(self, took: Took, state: State) -> dict[str, Tensor]:
        limit, most = aimed(took.step, took.quotient, self.aim), took.step * self.grow
        mean = torch.lerp(limit.log(), state["log"], self.memory)
        mean = torch.where(torch.isnan(state["log"]), limit.log(), mean)
        mean = torch.where(
            limit >= most, most.log(), mean
        )  # far too short: the mean would be slow to find out
        return {"log": torch.where(took.step > 0, mean, torch.full_like(mean, torch.nan))}


class Failure(Protocol):
    """What becomes of a search that found nothing."""

    def __call__(self, ended: Ended) -> tuple[Scalar, Scalar]:
        """Step to take and step to remember."""
        ...


@dataclass(frozen=True)
class Settle:
    """Take the longest trial that was only too short, for it decreases enough; where there is none, do as `Skip`.

    Under Armijo's condition no step is too short, so this is `Skip`. Under the others it is what rounding leaves to do close to a
    minimum.
    """

    def __call__(self, ended: Ended) -> tuple[Scalar, Scalar]:
        return ended.short, torch.where(ended.short > 0, ended.short, ended.start)


@dataclass(frozen=True)
class Skip:
    """Take no step, and begin anew from the start value: one bad batch must not freeze the client."""

    def __call__(self, ended: Ended) -> tuple[Scalar, Scalar]:
        return torch.zeros_like(ended.tried), ended.start


@dataclass(frozen=True)
class Nudge:
    """Take a tiny step all the same, as the SLS program and the paper's authors do.

    The SLS program remembers the last trial (`remember_trial=True`), the authors' later client the tiny step.
    """

    step: float = 1e-6
    remember_trial: bool = False

    def __post_init__(self) -> None:
        if not self.step >= 0:
            raise InputError(
                f"Nudge(step={self.step}): the step must be 0 or more; the programs use 1e-6"
            )

    def __call__(self, ended: Ended) -> tuple[Scalar, Scalar]:
        taken = torch.full_like(ended.tried, self.step)
        return taken, ended.following if self.remember_trial else taken


@dataclass(frozen=True)
class LastTrial:
    """Stay at the last trial, good or not, as the SLS program does under the Goldstein conditions.

    What it remembers is the trial that would have come next. A last trial whose loss was not finite is not taken.
    """

    def __call__(self, ended: Ended) -> tuple[Scalar, Scalar]:
        return ended.tried, ended.following
