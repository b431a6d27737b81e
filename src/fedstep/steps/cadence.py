"""How often a step is searched for; between searches the first guess is taken untested."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar, State, Vec

TINY = 1e-8  # the program's start of both means, and its guard against division by zero


class Cadence:
    """How often a step is searched for; a cadence overrides what it needs."""

    def init(self, x: Vec) -> dict[str, Tensor]:
        """What it remembers before the first step."""
        return {}

    def __call__(self, like: Scalar, state: State) -> tuple[Tensor, dict[str, Tensor]]:
        """Which clients search now, and the new state; `like` has one entry a client."""
        return torch.ones_like(like, dtype=torch.bool), {}

    def after(self, step: Scalar, state: State) -> dict[str, Tensor]:
        """The state after a search that took this step."""
        return dict(state)


@dataclass(frozen=True)
class Always(Cadence):
    """Search in every step."""


@dataclass(frozen=True)
class Settled(Cadence):
    """Search less often while the accepted steps hardly change (Kenneweg et al., 2024).

        search where k < warmup, or (steps since the last search) >= min(rarest, 1 / (r - 1))
        r = fast / slow or its inverse, whichever is at least 1: two running means of the accepted steps

    k = 1, 2, ... counts the client's steps. The running means have factors 0.9 and 0.99 and begin at 1e-8.
    """

    rarest: int = 10
    warmup: int = 10

    def __post_init__(self) -> None:
        if self.rarest < 1:
            raise InputError(
                f"Settled(rarest={self.rarest}): must be 1 or more; the program uses 10"
            )

    def init(self, x: Vec) -> dict[str, Tensor]:
        zeros = x.new_zeros(x.shape[:-1])
        return {
            "steps": zeros,
            "since": zeros + self.rarest,
            "fast": zeros + TINY,
            "slow": zeros + TINY,
        }

    def __call__(self, like: Scalar, state: State) -> tuple[Tensor, dict[str, Tensor]]:
        steps, since = state["steps"] + 1, state["since"] + 1
        ratio = state["fast"] / state["slow"]
        change = torch.maximum(ratio, 1 / ratio) - 1
        due = (steps < self.warmup) | (since >= (1 / (change + TINY)).clamp(max=self.rarest))
        return due, {
            **state,
            "steps": steps,
            "since": torch.where(due, torch.zeros_like(since), since),
        }

    def after(self, step: Scalar, state: State) -> dict[str, Tensor]:
        return {
            **state,
            "fast": 0.9 * state["fast"] + 0.1 * step,
            "slow": 0.99 * state["slow"] + 0.01 * step,
        }
