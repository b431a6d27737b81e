"""Newton's method on all of a client's batches at once, its systems solved by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.core.vec import Scalar, State, Vec, dot, lift, norm_sq, prefixed, scale, under
from fedstep.local.joined_batches import JoinedBatch, join_batches
from fedstep.local.objective import Objective
from fedstep.local.solver import LocalSolver, _column
from fedstep.local.trace import Trace
from fedstep.steps.conditions import Armijo
from fedstep.steps.resets import Restart
from fedstep.steps.rule import Outcome, StepRule
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
            raise InputError(
                f"Newton(steps={self.steps}, products={self.products}): both must be 1 or more"
            )
        if not 0 < self.tolerance < 1:
            raise InputError(
                f"Newton(tolerance={self.tolerance}): the relative tolerance must lie in (0, 1)"
            )

    def passes(
        self, batches: Iterable[tuple[Batch, Tensor | None]], x: Vec
    ) -> Iterable[tuple[Batch, Tensor | None]]:
        given = list(batches)
        return [(join_batches(given, len(x)), None)] * self.steps if given else []

    def _step(
        self, phi: Objective, x: Vec, state: State
    ) -> tuple[Vec, dict[str, Tensor], tuple[Tensor, ...]]:
        assert isinstance(phi.batch, JoinedBatch)
        count = phi.batch.count
        live = state.get("newton.live", count > 0)
        if not bool(live.any()):
            none = x.new_zeros(x.shape[:-1])
            return (
                x,
                dict(state),
                (live, *_column(none, Outcome.free(none))[1:], count * 0, count * 0),
            )
        f, g = self.oracle(phi, x)
        size = norm_sq(g).sqrt()
        least = state.get("newton.least", size * max(self.tolerance, 10 * torch.finfo(x.dtype).eps))
        moving = live & ~(size <= least)  # a NaN moves on: the search is to count it as failed
        new, after, out, products = self._move(phi, x, f, g, state, moving)
        after |= {"newton.live": moving & (out.step > 0), "newton.least": least}
        # every pass goes through all batches; a step needs one more gradient for the graph, a product two backward passes
        graph = (products > 0).long()
        forwards = (count - 1) * (self.oracle.forwards * live + out.trials) + count * graph
        backwards = (count - 1) * self.oracle.backwards * live + count * (graph + 2 * products)
        return new, after, (live, *_column(f, out)[1:], forwards, backwards)

    def _move(
        self, phi: Objective, x: Vec, f: Scalar, g: Vec, state: State, moving: Tensor
    ) -> tuple[Vec, dict[str, Tensor], Outcome, Tensor]:
        """One Newton step of the moving clients: x, state, outcome, number of products."""
        none = torch.zeros_like(f, dtype=torch.int64)
        if not bool(moving.any()):
            return x, dict(state), Outcome.free(torch.zeros_like(f)), none
        right = torch.where(moving.unsqueeze(-1), -g, torch.zeros_like(g))
        # two digits more than asked for: the system must not be what keeps |g| up
        d, products = conjugate_gradients(
            hessian_product(phi, x), right, self.tolerance / 100, self.products
        )
        d, direction = self.direction.apply(d, x, under("direction.", state))
        out, step = self.step.search(phi, x, f, g, d, under("step.", state))
        # a search takes |g| < 1e-8 for standing still; the last Newton steps are taken whole
        eta = torch.where((out.step == 0) & ~out.failed, torch.ones_like(f), out.step)
        eta = torch.where(moving, eta, torch.zeros_like(f))
        out = replace(
            out, step=eta, trials=torch.where(moving, out.trials, none), failed=out.failed & moving
        )
        after = prefixed("step.", step) | prefixed("direction.", direction)
        after = {
            **state,
            **{k: torch.where(lift(moving, v), v, state[k]) for k, v in after.items()},
        }
        return torch.where((eta == 0).unsqueeze(-1), x, x + scale(eta, d)), after, out, products

    def _trace(self, x: Vec, columns: list[tuple[Tensor, ...]], *more: Any) -> Trace:
        trace = super()._trace(x, columns, *more)
        forwards, backwards = (sum(int(c[i].sum()) for c in columns) for i in (-2, -1))
        return replace(
            trace,
            more_forwards=trace.more_forwards + forwards,
            more_backwards=trace.more_backwards + backwards,
        )


def hessian_product(phi: Objective, x: Vec) -> Callable[[Vec], Vec]:
    """v -> H v for the Hessian of phi at x, per client."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(phi(leaf).sum(), leaf, create_graph=True)

    def product(v: Vec) -> Vec:
        if not g.requires_grad:  # phi is linear
            return torch.zeros_like(v)
        (h,) = torch.autograd.grad(
            g, leaf, v, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        return h

    return product


def conjugate_gradients(
    product: Callable[[Vec], Vec], right: Vec, tolerance: float, most: int
) -> tuple[Vec, Tensor]:
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
