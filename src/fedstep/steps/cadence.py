"""How often a step is searched for; between searches the first guess is taken untested."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec

TINY = 1e-8  # the program's start of both means, and its guard against division by zero


class Cadence(ABC):
    """How often a step is searched for."""

    def init(self, x: Vec) -> NewState:
        """What it remembers before the first step."""
        return {}

    @abstractmethod
    def __call__(
        self,
        slope: Scalar,
        state: State,
    ) -> tuple[Tensor, NewState]:
        """Which clients search now, and the new state; `slope` is that of the loss at step 0."""

    def after(
        self,
        step: Scalar,
        state: State,
    ) -> NewState:
        """The state after a search that took this step."""
        return dict(state)


@dataclass(frozen=True)
class Always(Cadence):
    """Search in every step."""

    def __call__(
        self,
        slope: Scalar,
        state: State,
    ) -> tuple[Tensor, NewState]:
        everybody = torch.ones_like(slope, dtype=torch.bool)
        return everybody, {}


@dataclass(frozen=True)
class Settled(Cadence):
    """Search less often while the accepted steps hardly change (Kenneweg et al., 2024).

        search where k < warmup, or (steps since the last search) >= min(rarest, 1 / (r - 1))
        r = fast / slow or its inverse, whichever is at least 1: two means of the accepted steps

    k = 1, 2, ... counts the client's steps. The running means have factors 0.9 and 0.99 and begin
    at 1e-8.
    """

    rarest: int = 10  # steps between two searches, at most
    warmup: int = 10  # first steps, which are all searched for

    def __post_init__(self) -> None:
        if self.rarest < 1:
            raise InputError(
                f"Settled(rarest={self.rarest}): must be 1 or more; the program uses 10"
            )

    def init(self, x: Vec) -> NewState:
        zeros = x.new_zeros(x.shape[:-1])
        return {
            "steps": zeros,
            "since": zeros + self.rarest,  # so that the first step is searched for
            "fast": zeros + TINY,
            "slow": zeros + TINY,
        }

    def __call__(
        self,
        slope: Scalar,
        state: State,
    ) -> tuple[Tensor, NewState]:
        steps = state["steps"] + 1
        since = state["since"] + 1
        ratio = state["fast"] / state["slow"]
        change = torch.maximum(ratio, 1 / ratio) - 1
        pause = (1 / (change + TINY)).clamp(max=self.rarest)
        due = (steps < self.warmup) | (since >= pause)
        after = {
            **state,
            "steps": steps,
            "since": torch.where(due, torch.zeros_like(since), since),
        }
        return due, after

    def after(
        self,
        step: Scalar,
        state: State,
    ) -> NewState:
        fast = 0.9 * state["fast"] + 0.1 * step
        slow = 0.99 * state["slow"] + 0.01 * step
        return {**state, "fast": fast, "slow": slow}


@dataclass(frozen=True)
class Steeper(Cadence):
    """Search in some steps, and wherever the loss is steeper than what has been searched.

        search where (steps since the last search) >= rarest, or |<g, d>| > factor * its value there

    The curvature of one batch speaks for others that are no steeper. A steeper batch is one that
    the model does not fit yet, where it is more curved too, and an untested step would go too far:
    such batches are tested. The slope is at hand, so to look at it
    costs nothing. A search that fails has not searched anything: the next step is tested again.
    """

    rarest: int = 8  # steps from one search to the next, at most
    factor: float = 1.0

    def __post_init__(self) -> None:
        if self.rarest < 1:
            raise InputError(f"Steeper(rarest={self.rarest}): must be 1 or more; try 8")
        if not self.factor > 0:
            raise InputError(f"Steeper(factor={self.factor}): it must be positive; try 1")

    def init(self, x: Vec) -> NewState:
        zeros = x.new_zeros(x.shape[:-1])
        return {
            "since": zeros,
            "searched": zeros,  # so that the first step is searched for
        }

    def __call__(
        self,
        slope: Scalar,
        state: State,
    ) -> tuple[Tensor, NewState]:
        since = state["since"] + 1
        steep = slope.abs() > self.factor * state["searched"]
        due = steep | (since >= self.rarest)
        return due, {
            "since": torch.where(due, torch.zeros_like(since), since),
            "searched": torch.where(due, slope.abs(), state["searched"]),
        }

    def after(
        self,
        step: Scalar,
        state: State,
    ) -> NewState:
        found = step > 0
        return {
            **state,
            "searched": torch.where(found, state["searched"], 0.0),
        }
