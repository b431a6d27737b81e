"""Newton's method on all of a client's batches at once, its systems solved by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context
from fedstep.core.vec import State, Vec, dot, lift, norm_sq, prefixed, scale, under
from fedstep.local.joined import joined
from fedstep.local.objective import Objective
from fedstep.local.solver import LocalSolver
from fedstep.local.terms import Term
from fedstep.local.trace import Trace
from fedstep.steps.conditions import Armijo
from fedstep.steps.resets import Restart
from fedstep.steps.rule import StepRule
from fedstep.steps.search import LineSearch


@dataclass(frozen=True)
class Newton(LocalSolver):
    """Minimise phi over all samples of the round's batches, taken as one batch.

        H d = -g by conjugate gradients on Hessian-vector products;  x <- x + eta d  until |g| <= tolerance * |g of the start|

    phi is the client's loss over all its samples when the plan is one epoch (or several), and that over the samples it meets
    otherwise. On a quadratic one step is exact after at most d products. Where curvature is not positive the system is left
    at the point reached, and eta is found by a search from 1 downwards: damped, truncated Newton. With steps=1 and
    `Constant(1.0)` it is a single Newton step. The graph of one gradient over all samples is held in memory.
    """

    step: StepRule = LineSearch(Armijo(1e-4), Restart(), max_step=1.0, shrink=0.5, trials=40)
    steps: int = 20
    tolerance: float = 1e-10
    products: int = 250
    intrinsic: ClassVar[bool] = False  # conjugate gradients take plain inner products

    def __post_init__(self) -> None:
        if self.steps < 1 or self.products < 1:
            raise InputError(f"Newton(steps={self.steps}, products={self.products}): both must be 1 or more")
        if not 0 < self.tolerance < 1:
            raise InputError(f"Newton(tolerance={self.tolerance}): the relative tolerance must lie in (0, 1)")

    def __call__(
        self, ctx: Context, x: Vec, batches: Iterable[tuple[Batch, Tensor | None]], extra: tuple[Term, ...] = ()
    ) -> tuple[Vec, Trace, dict[str, Tensor], dict[str, Tensor]]:
        given = list(batches)
        state = prefixed("step.", self.step.begin(x, under("step.", ctx.shared), under("step.", ctx.memory)))
        state |= prefixed("direction.", self.direction.init(x))
        columns, products, count = list[tuple[Tensor, ...]](), list[Tensor](), torch.zeros(x.shape[:-1])
        if given:
            whole, count = joined(given, len(x))
            phi, live, least = Objective(ctx, whole, self.terms + extra), count > 0, None
            for _ in range(self.steps):
                f, g = self.oracle(phi, x)
                size = norm_sq(g).sqrt()
                close = max(self.tolerance, 10 * torch.finfo(x.dtype).eps)
                least = close * size if least is None else least
                moving = live & ~(size <= least)  # a NaN moves on: the search is to count it as failed
                x, after, column, used = self._newton(phi, x, f, g, state, moving)
                columns.append((live, *column))
                products.append(used)
                state = {k: torch.where(lift(moving, v), v, state[k]) for k, v in after.items()}
                live = moving & (column[1] > 0)
                if not bool(live.any()):
                    break
        last = under("step.", state)
        remembered = prefixed("step.", last) if self.step.carry else {}
        trace = _charged(self._trace(x, columns), count, products)
        return x, trace, remembered, prefixed("step.", self.step.message(last))

    def _newton(
        self, phi: Objective, x: Vec, f: Tensor, g: Vec, state: State, moving: Tensor
    ) -> tuple[Vec, dict[str, Tensor], tuple[Tensor, ...], Tensor]:
        """One step of the moving clients: x, state, (f, eta, trials, failed) and the number of products."""
        none = torch.zeros_like(f, dtype=torch.int64)
        if not bool(moving.any()):
            return x, dict(state), (f, torch.zeros_like(f), none, none.bool()), none
        right = torch.where(moving.unsqueeze(-1), -g, torch.zeros_like(g))
        # two digits more than asked for: the system must not be what keeps |g| up
        d, used = conjugate_gradients(hessian(phi, x), right, self.tolerance / 100, self.products)
        d, direction = self.direction.apply(d, x, under("direction.", state))
        out, step = self.step.search(phi, x, f, g, d, under("step.", state))
        # a search takes |g| < 1e-8 for standing still; the last Newton steps are taken whole
        eta = torch.where((out.step == 0) & ~out.failed, torch.ones_like(out.step), out.step)
        eta = torch.where(moving, eta, torch.zeros_like(eta))
        x = torch.where((eta == 0).unsqueeze(-1), x, x + scale(eta, d))
        column = f, eta, torch.where(moving, out.trials, none), out.failed & moving
        return x, prefixed("step.", step) | prefixed("direction.", direction), column, used


def hessian(phi: Objective, x: Vec) -> Callable[[Vec], Vec]:
    """v -> H v for the Hessian of phi at x, per client."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(phi(leaf).sum(), leaf, create_graph=True)

    def product(v: Vec) -> Vec:
        if not g.requires_grad:  # phi is linear
            return torch.zeros_like(v)
        (h,) = torch.autograd.grad(g, leaf, v, retain_graph=True, allow_unused=True, materialize_grads=True)
        return h

    return product


def conjugate_gradients(product: Callable[[Vec], Vec], right: Vec, tolerance: float, most: int) -> tuple[Vec, Tensor]:
    """Solve H z = right until |residual| <= tolerance * |right|, and say how many products it took, per client.

    A direction of non-positive curvature ends it where it is; if it is the first, z = right.
    """
    z, r, p = torch.zeros_like(right), right, right
    rr = norm_sq(r)
    least, used = tolerance**2 * rr, torch.zeros_like(rr, dtype=torch.int64)
    active = rr > 0
    for _ in range(most):
        if not bool(active.any()):
            break
        h = product(p)
        curvature = dot(p, h)
        used = used + active
        flat = active & ~(curvature > 0)
        z = torch.where((flat & (used == 1)).unsqueeze(-1), right, z)
        active = active & ~flat
        a = torch.where(active, rr / curvature, torch.zeros_like(rr))
        z, r = z + scale(a, p), torch.where(active.unsqueeze(-1), r - scale(a, h), r)
        new = norm_sq(r)
        p = torch.where(active.unsqueeze(-1), r + scale(new / rr, p), p)
        rr = torch.where(active, new, rr)
        active = active & (rr > least)
    return z, used


def _charged(trace: Trace, count: Tensor, products: list[Tensor]) -> Trace:
    """The trace with what Newton steps cost on top: every pass goes through all batches of the client.

    A step that moves needs one more gradient for the graph, and every product is two backward passes.
    """
    if not products:
        return trace
    used = torch.stack(products, -1)
    graphs = (used > 0).sum(-1)
    forwards = trace.live.sum(-1) * trace.forwards + trace.trials.sum(-1)
    backwards = trace.live.sum(-1) * trace.backwards
    more_forwards = (count - 1) * forwards + count * graphs
    more_backwards = (count - 1) * backwards + count * (graphs + 2 * used.sum(-1))
    return replace(trace, more_forwards=int(more_forwards.sum()), more_backwards=int(more_backwards.sum()))
