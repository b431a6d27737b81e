"""Steps that are asked for instead of searched for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec
from fedstep.steps.rule import Outcome, Phi, StepRule


@dataclass(frozen=True)
class Constant(StepRule):
    """The same step for every batch of every round."""

    step: float = 0.1
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.step >= 0:
            raise InputError(f"Constant(step={self.step}): the step must be 0 or more")

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        return Outcome.free(torch.full_like(f, self.step)), {}


@dataclass(frozen=True)
class Divided(StepRule):
    """step / K_i for a client with K_i local steps: all clients go the same length in a round."""

    step: float = 0.1

    def __post_init__(self) -> None:
        if not self.step >= 0:
            raise InputError(f"Divided(step={self.step}): the step must be 0 or more")

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        step = (self.step / phi.steps).to(f.dtype)
        return Outcome.free(step.expand_as(f)), {}


@dataclass(frozen=True)
class Schedule(StepRule):
    """A step that depends on the round t = 0, 1, ... only.

    eta_t = max(floor, step * min(1, (t + 1) / warmup) * decay^t)
    """

    step: float = 0.1
    decay: float = 1.0  # factor from one round to the next
    warmup: int = 1  # rounds of linear growth
    floor: float = 0.0  # no step is shorter
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.step >= 0:
            raise InputError(f"Schedule(step={self.step}): the step must be 0 or more")
        if not 0 < self.decay <= 1:
            raise InputError(f"Schedule(decay={self.decay}): the decay must lie in (0, 1]")
        if self.warmup < 1:
            raise InputError(
                f"Schedule(warmup={self.warmup}): the number of rounds must be 1 or more"
            )

    def at(self, round: int) -> float:
        """The step of a round."""
        warm = min(1.0, (round + 1) / self.warmup)
        return max(self.floor, self.step * warm * self.decay**round)

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        step = self.at(phi.round)
        return Outcome.free(torch.full_like(f, step)), {}
