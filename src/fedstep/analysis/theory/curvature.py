"""Largest and smallest curvature of a function at a point, and its minimum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.seeds import generator
from fedstep.core.types import Batch, Context
from fedstep.core.vec import Scalar, Vec, dot, norm_sq, scale
from fedstep.local.objective import Objective
from fedstep.models.function import FunctionModel
from fedstep.steps.conditions import Armijo
from fedstep.steps.resets import Restart
from fedstep.steps.search import LineSearch

DENSE = 64  # parameters up to which the whole Hessian is formed
PRODUCTS = 16  # Hessian-vector products of a larger one
Function = Callable[[Vec], Scalar]


@dataclass(frozen=True)
class Spectrum:
    """The ends of a Hessian's spectrum; without `exact` high is a lower bound of the largest, low an upper one of the least."""

    low: float
    high: float
    exact: bool


@dataclass(frozen=True)
class Minimum:
    """Where a descent ended: the value there is an upper bound of the infimum."""

    x: Vec
    value: float
    slope: float  # |gradient| there


def gradient(f: Function, x: Vec) -> tuple[float, Vec]:
    """Value and gradient."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        value = f(leaf)
        (g,) = torch.autograd.grad(value, leaf)
    return float(value.detach()), g


def products(f: Function, x: Vec) -> Callable[[Vec], Vec]:
    """v -> Hessian of f at x times v."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(f(leaf), leaf, create_graph=True)

    def times(v: Vec) -> Vec:
        if not g.requires_grad:  # a linear function
            return torch.zeros_like(v)
        (hv,) = torch.autograd.grad(g, leaf, v.to(g), retain_graph=True, allow_unused=True)
        return torch.zeros_like(v) if hv is None else hv.to(v)

    return times


def spectrum(f: Function, x: Vec, seed: int = 0) -> Spectrum:
    """The whole Hessian for few parameters; else Lanczos: power iteration that keeps all its vectors."""
    times = products(f, x)
    exact = x.numel() <= DENSE
    found = torch.linalg.eigvalsh(hessian(times, x) if exact else _lanczos(times, x, seed))
    return Spectrum(float(found[0]), float(found[-1]), exact)


def hessian(times: Callable[[Vec], Vec], x: Vec) -> Tensor:
    """The matrix, column by column, made symmetric."""
    columns = [times(e) for e in torch.eye(x.numel(), dtype=torch.float64, device=x.device)]
    whole = torch.stack(columns)
    return (whole + whole.mT) / 2


def _lanczos(times: Callable[[Vec], Vec], x: Vec, seed: int) -> Tensor:
    """The Hessian on the space of v, Hv, HHv, ...: its eigenvalues lie between the Hessian's."""
    v = torch.randn(x.numel(), generator=generator(seed, "lanczos"), dtype=torch.float64).to(
        x.device
    )
    basis, images = [v / v.norm()], list[Vec]()
    for _ in range(PRODUCTS):
        images.append(times(basis[-1]))
        kept = torch.stack(basis)
        rest = images[-1] - kept.mT @ (kept @ images[-1])
        rest = rest - kept.mT @ (
            kept @ rest
        )  # once more: rounding would let found directions back in
        if rest.norm() <= 1e-10 * images[-1].norm():
            break
        basis.append(rest / rest.norm())
    small = torch.stack(basis[: len(images)]) @ torch.stack(images).mT
    return (small + small.mT) / 2


def minimise(f: Function, x: Vec, iterations: int = 60) -> Minimum:
    """Newton's steps for few parameters, exact on a quadratic and then the minimiser nearest to x; else L-BFGS."""
    best = Minimum(x, *_level(f, x))
    if x.numel() <= DENSE:
        best = _newton(f, best)
    if best.slope > 1e-10 * (1 + abs(best.value)):
        other = _lbfgs(f, best.x, iterations)
        best = other if other.value < best.value else best
    return best


def _newton(f: Function, best: Minimum) -> Minimum:
    for _ in range(30):
        value, g = gradient(f, best.x)
        whole = hessian(products(f, best.x), best.x)
        step = torch.linalg.pinv(whole, rtol=1e-10, hermitian=True) @ g.double()
        trial = best.x - step.to(best.x)
        found = Minimum(trial, *_level(f, trial))
        if not found.value <= value or found.slope >= best.slope:
            break
        best = found
    return best


def _lbfgs(f: Function, x: Vec, iterations: int) -> Minimum:
    """Nocedal's two loops over the last pairs (s, y), and the library's own search, begun at 1."""
    search, pairs = (
        LineSearch(Armijo(1e-4), Restart(), max_step=1.0, shrink=0.5, trials=40),
        list[tuple[Vec, Vec]](),
    )
    phi, (value, g) = _objective(f, x), gradient(f, x)
    for k in range(iterations):
        d = _quasi_newton(g, pairs) if k else -g / max(1.0, float(g.norm()))
        out, _ = search.search(phi, x, x.new_tensor(value), g, d, search.init(x))
        if float(out.step) == 0:
            break
        after = x + scale(out.step, d)
        value, new = gradient(f, after)
        s, y = after - x, new - g
        if float(dot(s, y)) > 1e-12 * float(norm_sq(y)):
            pairs = [*pairs[-9:], (s, y)]
        x, g = after, new
    return Minimum(x, value, float(g.norm()))


def _objective(f: Function, x: Vec) -> Objective:
    """A function as a line search asks for it."""
    model = FunctionModel(lambda at, batch: f(at), x)
    return Objective(Context(x, model), Batch((), x.new_ones(()), torch.tensor(0)))


def _quasi_newton(g: Vec, pairs: Sequence[tuple[Vec, Vec]]) -> Vec:
    d, kept = -g, list[Scalar]()
    for s, y in reversed(pairs):
        kept.append(dot(s, d) / dot(s, y))
        d = d - scale(kept[-1], y)
    if pairs:
        s, y = pairs[-1]
        d = scale(dot(s, y) / norm_sq(y), d)
    for (s, y), a in zip(pairs, reversed(kept), strict=True):
        d = d + scale(a - dot(y, d) / dot(s, y), s)
    return d


def _level(f: Function, x: Vec) -> tuple[float, float]:
    value, g = gradient(f, x)
    return value, float(g.norm())
