"""A step shared out among the local steps of a round."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar, State, Vec
from fedstep.steps.rule import Outcome, Phi, StepRule


@dataclass(frozen=True)
class Divided(StepRule):
    """step / K_i for a client that takes K_i local steps: all clients go the same length in a round."""

    step: float = 0.1

    def __post_init__(self) -> None:
        if not self.step >= 0:
            raise InputError(f"Divided(step={self.step}): the step must be 0 or more")

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, dict[str, Tensor]]:
        return Outcome.free((self.step / phi.steps).to(f.dtype).expand_as(f)), {}
