"""The value a trial is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from fedstep.core.vec import Scalar, State, Vec


class Reference(Protocol):
    """The value that a trial is compared with."""

    def init(self, x: Vec) -> dict[str, Tensor]: ...
    def __call__(self, f: Scalar, state: State) -> tuple[Scalar, dict[str, Tensor]]:
        """The reference value and the new state, given the value at x."""
        ...


@dataclass(frozen=True)
class Current:
    """f(x) itself: every accepted step decreases the batch loss (monotone)."""

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {}

    def __call__(self, f: Scalar, state: State) -> tuple[Scalar, dict[str, Tensor]]:
        return f, {}
