"""A search whose trials pass or fail a test of their own, in the place of a condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

import torch
from torch import Tensor

from fedstep.core.vec import Scalar, Vec
from fedstep.steps.rule import ObjectiveAlongLine, Phi

# Whether trials pass, for the given rows of the block only (None: all).
TrialTest: TypeAlias = Callable[[Scalar, Tensor | None], Tensor]


@dataclass(frozen=True)
class Tested:
    """phi's linear model where a trial passes the test, infinite elsewhere.

    A search for decrease on it ends at the first trial of its grid that passes.
    """

    phi: Phi
    f: Scalar  # phi(x)
    decline: Scalar  # the linear model's slope along d, below 0
    passes: TrialTest

    @property
    def round(self) -> int:
        return self.phi.round

    @property
    def share(self) -> Scalar:
        return self.phi.share

    @property
    def steps(self) -> Scalar:
        return self.phi.steps

    def __call__(self, x: Vec) -> Scalar:
        return self.phi(x)

    def slope(self, g: Vec, d: Vec) -> Scalar:
        return self.decline

    def norm_sq(self, g: Vec) -> Scalar:
        return self.phi.norm_sq(g)

    def along(self, x: Vec, d: Vec) -> ObjectiveAlongLine:
        return _TestedRay(self)


@dataclass(frozen=True)
class _TestedRay:
    of: Tested

    def __call__(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        linear = _some(self.of.f, rows) + eta * self.derivative(eta, rows)
        return torch.where(self.of.passes(eta, rows), linear, inf)

    def derivative(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        return _some(self.of.decline, rows)  # of the linear model: the same everywhere


def _some(values: Tensor, rows: Tensor | None) -> Tensor:
    return values if rows is None else values[rows]
