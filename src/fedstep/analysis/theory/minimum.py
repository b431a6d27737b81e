"""The lowest point of a function that a descent finds."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.analysis.theory.curvature import DENSE, Function, dense_hessian
from fedstep.core.vec import Vec

NEWTON_STEPS = 30
PAIRS = 10  # of steps and gradient changes that L-BFGS remembers
FLAT_SLOPE = 1e-10  # a slope below this is that of a minimum


@dataclass(frozen=True)
class Minimum:
    """Where a descent ended: the value there is an upper bound of the infimum."""

    x: Vec
    value: float  # f(x)
    slope: float  # |gradient| there

    @staticmethod
    def at(f: Function, x: Vec) -> Minimum:
        """A point as the outcome of a descent."""
        value, g = value_and_gradient(f, x)
        return Minimum(x, value, float(g.norm()))


def value_and_gradient(f: Function, x: Vec) -> tuple[float, Vec]:
    """f(x) and its gradient."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        value = f(leaf)
        (g,) = torch.autograd.grad(value, leaf)
    return float(value.detach()), g


def minimise(
    f: Function,
    x: Vec,
    iterations: int = 60,
) -> Minimum:
    """Newton's steps for few parameters, exact on a quadratic and then the minimiser nearest to x.

    Else L-BFGS.
    """
    best = Minimum.at(f, x)
    # a dense Hessian is affordable
    if x.numel() <= DENSE:
        best = _newton(f, best)
    flat = FLAT_SLOPE * (1 + abs(best.value))
    if best.slope <= flat:
        return best
    other = _lbfgs(f, best.x, iterations)
    # also where the other is NaN
    if not other.value < best.value:
        return best
    return other


def _newton(f: Function, best: Minimum) -> Minimum:
    for _ in range(NEWTON_STEPS):
        _, g = value_and_gradient(f, best.x)
        # the pseudo-inverse does not move along flat directions: the minimiser nearest to x
        hessian = dense_hessian(f, best.x)
        inverse = torch.linalg.pinv(hessian, rtol=1e-10, hermitian=True)
        step = inverse @ g.double()
        trial = Minimum.at(f, best.x - step.to(best.x))
        # `not <=` also stops at NaN; near the minimum values tie, and the slope decides
        rises = not trial.value <= best.value
        if rises or trial.slope >= best.slope:
            break
        best = trial
    return best


def _lbfgs(
    f: Function,
    x: Vec,
    iterations: int,
) -> Minimum:
    """torch's L-BFGS with the strong Wolfe search, which is deterministic."""
    point = x.detach().clone().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [point],
        max_iter=iterations,
        max_eval=4 * iterations,
        # no early end: the gaps measured with it are compared with rounding
        tolerance_grad=0.0,
        tolerance_change=0.0,
        history_size=PAIRS,
        line_search_fn="strong_wolfe",
    )

    def closure() -> torch.Tensor:
        value, g = value_and_gradient(f, point)
        point.grad = g
        return point.new_tensor(value)

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    return Minimum.at(f, point.detach())
