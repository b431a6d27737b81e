"""When a trial step is good: verdicts per client, +1 too long, -1 too short, 0 accept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar


class Condition(Protocol):
    """When a trial step is good."""

    def __call__(self, eta: Scalar, value: Scalar, reference: Scalar, slope: Scalar, noise: Scalar) -> Tensor:
        """Judge the value at x + eta d; slope is <g, d> at x, noise the rounding error of a value."""
        ...


@dataclass(frozen=True)
class Armijo:
    """Accept a step that decreases enough (Armijo, 1966).

        f(x + eta d) <= ref + c * eta * <g, d>

    ref is f(x), or what the reference slot makes of the last values. Where the decrease asked for is lost in the rounding
    of the two values (the noise), f may rise by the noise. Needs <g, d> < 0. For an L-smooth f and d = -g the
    accepted step is at least min(start, shrink * 2 (1 - c) / L): tests/theorems/test_armijo.py.
    """

    c: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.c < 1:
            raise InputError(f"Armijo(c={self.c}): c must lie in (0, 1); the paper uses 0.1")

    def __call__(self, eta: Scalar, value: Scalar, reference: Scalar, slope: Scalar, noise: Scalar) -> Tensor:
        wanted = self.c * eta * slope
        forgiven = torch.where(-wanted <= noise, noise, torch.zeros_like(noise))
        return (~(value <= reference + wanted + forgiven)).int()  # "not <=": a NaN value counts as too long
