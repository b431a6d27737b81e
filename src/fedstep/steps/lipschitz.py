"""A search that compares gradients instead of values."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, Scalar, State, Vec, dot, norm_sq, scale
from fedstep.steps.resets import Grow
from fedstep.steps.rule import Differentiable, ObjectiveAlongLine, Outcome, Phi, StepRule
from fedstep.steps.search import LineSearch


@dataclass(frozen=True)
class LipschitzSearch(StepRule):
    """The longest step of the grid over which the gradient changes little.

        (eta / c)^2 |g(x + eta d) - g(x)|^2 <= |eta d|^2

    It is the search of an extragradient step. For an L-smooth phi it accepts every eta <= c / L.
    `grid` has start, reset, shrink and failure; its condition is not used. Every trial costs a
    gradient.
    """

    c: float = 0.9  # the gradient may change by |d| / c at most
    grid: LineSearch = LineSearch(reset=Grow(2.0))  # of the steps that are tried
    carry: bool = False

    def __post_init__(self) -> None:
        check_slots(self, grid=LineSearch)
        if not self.c > 0:
            raise InputError(
                f"LipschitzSearch(c={self.c}): c must be positive; the program uses 0.9"
            )

    def init(self, x: Vec) -> NewState:
        return self.grid.init(x)

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        if not isinstance(phi, Differentiable):
            raise InputError(
                "LipschitzSearch compares gradients at the trials: use it in a LocalSolver"
            )
        steady = _LinearWhereSteady(phi, f, g, self.c)
        return self.grid.search(
            steady,
            x,
            f,
            g,
            d,
            state,
        )


@dataclass(frozen=True)
class _LinearWhereSteady:
    """phi's linear model where the gradient is steady enough, infinite elsewhere.

    Any search for decrease then ends at the longest steady step of its grid.
    """

    phi: Differentiable
    f: Scalar
    g: Vec
    c: float

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

    def slope(
        self,
        g: Vec,
        d: Vec,
    ) -> Scalar:
        return dot(g, d)

    def norm_sq(self, g: Vec) -> Scalar:
        return norm_sq(g)

    def along(
        self,
        x: Vec,
        d: Vec,
    ) -> ObjectiveAlongLine:
        return _SteadyRay(
            self.phi,
            self.f,
            self.g,
            self.c,
            x=x,
            d=d,
        )


@dataclass(frozen=True)
class _SteadyRay:
    phi: Differentiable
    f: Scalar
    g: Vec
    c: float
    x: Vec
    d: Vec

    def __call__(
        self,
        eta: Scalar,
        rows: Tensor | None,
    ) -> Scalar:
        ray = self._rows(rows)
        # counted here because the loop of trials counts forward passes only
        ray.phi.work.add(eta.numel(), 0, 1)
        _, gradient = ray.phi.gradient(ray.x + scale(eta, ray.d))
        change = norm_sq(gradient - ray.g)
        steady = (eta / self.c) ** 2 * change <= eta**2 * norm_sq(ray.d)
        linear = ray.f + eta * dot(ray.g, ray.d)
        return torch.where(steady, linear, inf)

    def derivative(
        self,
        eta: Scalar,
        rows: Tensor | None,
    ) -> Scalar:
        slope = dot(self.g, self.d)  # of the linear model: the same everywhere
        if rows is None:
            return slope
        return slope[rows]

    def _rows(self, rows: Tensor | None) -> _SteadyRay:
        if rows is None:
            return self
        return _SteadyRay(
            self.phi.rows(rows),
            f=self.f[rows],
            g=self.g[rows],
            c=self.c,
            x=self.x[rows],
            d=self.d[rows],
        )
