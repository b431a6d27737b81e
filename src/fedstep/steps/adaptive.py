"""Steps from what the client has seen on its way: no trial costs a pass, except in the Lipschitz search."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar, State, Vec, dot, norm_sq, scale
from fedstep.steps.resets import Grow
from fedstep.steps.rule import Outcome, Phi, Ray, StepRule
from fedstep.steps.search import LineSearch


@dataclass(frozen=True)
class DistanceOverGradients(StepRule):
    """DoG (Ivgi et al., 2023): how far the client has come, over how much gradient it has seen.

        eta_k = scale * max_{i <= k} |x_i - x_0| / sqrt(eps + sum_{i <= k} |g_i|^2)

    The distance begins at reach (1 + |x_0|); with `first` the first step is that number and the distance begins at 0. x_0 is
    where the client first began: the state outlives the round (`carry`), or a client would never leave the tiny first steps.
    """

    reach: float = 1e-6
    scale: float = 1.0
    eps: float = 1e-8
    first: float | None = None
    carry: bool = True

    def __post_init__(self) -> None:
        for name in ("reach", "scale", "eps"):
            if not getattr(self, name) > 0:
                raise InputError(
                    f"DistanceOverGradients({name}={getattr(self, name)}): {name} must be positive"
                )
        if self.first is not None and not self.first > 0:
            raise InputError(
                f"DistanceOverGradients(first={self.first}): the first step must be positive, or None"
            )

    def init(self, x: Vec) -> dict[str, Tensor]:
        zero = x.new_zeros(x.shape[:-1])
        far = self.reach * (1 + norm_sq(x).sqrt()) if self.first is None else zero
        return {"origin": x, "distance": far, "gradients": zero + self.eps, "steps": zero}

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, dict[str, Tensor]]:
        distance = torch.maximum(state["distance"], norm_sq(x - state["origin"]).sqrt())
        gradients = state["gradients"] + norm_sq(g)
        step = self.scale * distance / gradients.sqrt()
        if self.first is not None:
            step = torch.where(state["steps"] == 0, self.first, step)
        kept = {
            "origin": state["origin"],
            "distance": distance,
            "gradients": gradients,
            "steps": state["steps"] + 1,
        }
        return Outcome.free(step), kept


@dataclass(frozen=True)
class FrankWolfe(StepRule):
    """The best step on the dual of a proximal problem with a piecewise linear loss (Berrada et al., 2019).

        eta = step * clip((f - step <g, r>) / (step |g|^2 + eps), 0, 1),  r = weight x

    f is the loss without its regulariser; weight is that of the decoupled decay (the move `Decayed`). The formula is exact for a
    hinge loss of a linear model. For a loss bounded below by 0 it is Polyak's step, cut at `step`, when weight is 0.
    """

    step: float = 0.1
    weight: float = 0.0
    eps: float = 1e-5

    def __post_init__(self) -> None:
        if not self.step > 0:
            raise InputError(
                f"FrankWolfe(step={self.step}): the longest step must be positive; try a power of 10"
            )
        for name in ("weight", "eps"):
            if not getattr(self, name) >= 0:
                raise InputError(
                    f"FrankWolfe({name}={getattr(self, name)}): {name} must be 0 or more"
                )

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, dict[str, Tensor]]:
        above = f - self.step * self.weight * dot(g, x)
        part = (above / (self.step * norm_sq(g) + self.eps)).clamp(0, 1)
        return Outcome.free(self.step * torch.where(torch.isfinite(f), part, 0.0)), {}


class Counter(Protocol):
    """Where passes are counted that are neither the gradient of a step nor the value of a trial."""

    def add(self, clients: int, forwards: int, backwards: int) -> None: ...


@runtime_checkable
class Differentiable(Phi, Protocol):
    """A client's function that gives its gradient anywhere."""

    @property
    def work(self) -> Counter: ...
    def rows(self, index: Tensor) -> Differentiable: ...
    def gradient(self, x: Vec) -> tuple[Scalar, Vec]: ...


@dataclass(frozen=True)
class LipschitzSearch(StepRule):
    """The longest step of the grid over which the gradient changes little: the search of an extragradient step.

        (eta / c)^2 |g(x + eta d) - g(x)|^2 <= |eta d|^2

    For an L-smooth phi it accepts every eta <= c / L. `grid` has start, reset, shrink and failure; its condition is not used.
    Every trial costs a gradient.
    """

    c: float = 0.9
    grid: LineSearch = LineSearch(reset=Grow(2.0))
    carry: bool = False

    def __post_init__(self) -> None:
        if not self.c > 0:
            raise InputError(
                f"LipschitzSearch(c={self.c}): c must be positive; the program uses 0.9"
            )

    def init(self, x: Vec) -> dict[str, Tensor]:
        return self.grid.init(x)

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, dict[str, Tensor]]:
        if not isinstance(phi, Differentiable):
            raise InputError(
                "LipschitzSearch compares gradients at the trials: use it in a LocalSolver"
            )
        return self.grid.search(_Steady(phi, f, g, self.c), x, f, g, d, state)


@dataclass(frozen=True)
class _Steady:
    """phi's linear model where the gradient is steady enough, infinite elsewhere: any search for decrease then finds the step."""

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

    def slope(self, g: Vec, d: Vec) -> Scalar:
        return dot(g, d)

    def norm_sq(self, g: Vec) -> Scalar:
        return norm_sq(g)

    def along(self, x: Vec, d: Vec) -> Ray:
        return _SteadyRay(self, x, d)


@dataclass(frozen=True)
class _SteadyRay:
    steady: _Steady
    x: Vec
    d: Vec

    def __call__(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        phi, f, g, x, d = self.steady.phi, self.steady.f, self.steady.g, self.x, self.d
        if rows is not None:
            phi, f, g, x, d = phi.rows(rows), f[rows], g[rows], x[rows], d[rows]
        phi.work.add(eta.numel(), 0, 1)
        change = norm_sq(phi.gradient(x + scale(eta, d))[1] - g)
        return torch.where(
            (eta / self.steady.c) ** 2 * change <= eta**2 * norm_sq(d), f + eta * dot(g, d), inf
        )

    def derivative(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        slope = dot(self.steady.g, self.d)  # of the linear model
        return slope if rows is None else slope[rows]
