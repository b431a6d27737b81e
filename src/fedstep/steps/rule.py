"""The step slot: what a rule is given and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedstep.core.vec import Scalar, State, Vec


class Ray(Protocol):
    """The function a client descends, along x + eta d."""

    def __call__(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        """Values at eta, for the given rows of the block only (None: all); no gradient is recorded."""
        ...


class Phi(Protocol):
    """The function a client descends on the batch at hand."""

    @property
    def round(self) -> int: ...
    @property
    def share(self) -> Scalar: ...
    def __call__(self, x: Vec) -> Scalar: ...
    def along(self, x: Vec, d: Vec) -> Ray: ...


@dataclass(frozen=True)
class Outcome:
    """One answer per client: the step taken (0: none), what it cost, and whether the search gave up."""

    step: Scalar
    trials: Tensor
    failed: Tensor

    @staticmethod
    def free(step: Scalar) -> Outcome:
        """A step that was not searched for."""
        none = torch.zeros_like(step, dtype=torch.int64)
        return Outcome(step, none, none.bool())


class StepRule(Protocol):
    """Maps the state at x (value f, gradient g, direction d) to a step size."""

    @property
    def carry(self) -> bool:
        """Whether the state outlives the round in the client's memory."""
        ...

    def init(self, x: Vec) -> dict[str, Tensor]: ...
    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, dict[str, Tensor]]: ...
