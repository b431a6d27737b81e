"""Newton's method on all of a client's batches at once, by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.hessian import hessian_product
from fedstep.core.types import Context, LiveBatch
from fedstep.core.vec import NewState, Scalar, State, Vec, dot, lift, norm_sq, scale
from fedstep.local.companion import Companion
from fedstep.local.joined_batches import JoinedBatch, join_batches
from fedstep.local.objective import Objective
from fedstep.local.progress import LocalStep, SolverState
from fedstep.local.solver import LocalSolver
from fedstep.local.trace import StepRecord
from fedstep.steps.conditions import Armijo
from fedstep.steps.resets import Restart
from fedstep.steps.rule import Outcome, StepRule
from fedstep.steps.search import LineSearch


@dataclass(frozen=True, eq=False)
class NewtonState(SolverState):
    """What a Newton client remembers besides: who is still on the way, and where to stop."""

    newton: State = field(default_factory=dict)  # empty before the first step


@dataclass(frozen=True)
class NewtonStep:
    """One Newton step of the clients that still move."""

    x: Vec
    step: State
    direction: State
    outcome: Outcome
    products: Tensor  # products with the Hessian, per client


@dataclass(frozen=True)
class Newton(LocalSolver):
    """Minimise phi over all samples of the round's batches, taken as one batch.

        H d = -g by conjugate gradients on Hessian-vector products;  x <- x + eta d
        until |g| <= tolerance * |g of the start|

    phi is the client's loss over all its samples when the plan is one epoch (or several), and that
    over the samples it meets otherwise. On a quadratic one step is exact after at most d products.
    Where curvature is not positive the system is left at the point reached, and eta is found by a
    search from 1 downwards: damped, truncated Newton. With steps=1 and `Constant(1.0)` it is a
    single Newton step. The graph of one gradient over all samples is held in memory.
    """

    step: StepRule = LineSearch(
        Armijo(1e-4),
        Restart(),
        max_step=1.0,
        shrink=0.5,
        trials=40,
    )
    steps: int = 20  # at most
    tolerance: float = 1e-10
    products: int = 250  # at most, per step
    intrinsic: ClassVar[bool] = False  # conjugate gradients take plain inner products

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1 or self.products < 1:
            raise InputError(
                f"Newton(steps={self.steps}, products={self.products}): both must be 1 or more"
            )
        if not 0 < self.tolerance < 1:
            raise InputError(
                f"Newton(tolerance={self.tolerance}): the relative tolerance must lie in (0, 1)"
            )

    def passes(self, batches: Iterable[LiveBatch], x: Vec) -> Iterable[LiveBatch]:
        given = list(batches)
        # no batch, no step: the trace then has no columns, as that of other solvers
        if not given:
            return []
        # the same batch again and again: Newton's steps are on one function
        return [(join_batches(given, len(x)), None)] * self.steps

    def _begin(
        self,
        ctx: Context,
        x: Vec,
        companion: Companion,
    ) -> NewtonState:
        usual = super()._begin(ctx, x, companion)
        return NewtonState(
            step=usual.step,
            direction=usual.direction,
            move=usual.move,
        )

    def _step(
        self,
        phi: Objective,
        x: Vec,
        state: SolverState,
        counted: bool,
    ) -> LocalStep:
        assert isinstance(phi.batch, JoinedBatch)
        assert isinstance(state, NewtonState)
        count = phi.batch.count
        # a client of the block without batches never starts
        live = state.newton.get("live", count > 0)
        if not bool(live.any()):
            return LocalStep(x, state, _at_rest(x, live), gradient=None)

        f, g = self.oracle(phi, x)
        size = norm_sq(g).sqrt()
        # below ten units in the last place a gradient is rounding, whatever was asked for
        relative = max(self.tolerance, 10 * torch.finfo(x.dtype).eps)
        least = state.newton.get("least", size * relative)
        moving = live & ~(size <= least)  # a NaN moves on: the search is to count it as failed
        after = self._newton_step(phi, x, f, g, state, moving)
        outcome = after.outcome
        self._count_passes(phi, count, live, outcome, after.products)
        new_state = NewtonState(
            step=after.step,
            direction=after.direction,
            move=state.move,
            newton={
                "live": moving & (outcome.step > 0),
                "least": least,
            },
        )
        record = replace(StepRecord.of(f, outcome), live=live)
        gradient = g if counted else None
        return LocalStep(after.x, new_state, record, gradient)

    def _newton_step(
        self,
        phi: Objective,
        x: Vec,
        f: Scalar,
        g: Vec,
        state: NewtonState,
        moving: Tensor,
    ) -> NewtonStep:
        none = torch.zeros_like(f, dtype=torch.int64)
        if not bool(moving.any()):
            still = Outcome.free(torch.zeros_like(f))
            return NewtonStep(x, state.step, state.direction, still, products=none)

        # a right side of 0 is solved at once: clients at rest cost no products
        right = torch.where(moving.unsqueeze(-1), -g, torch.zeros_like(g))
        # two digits more than asked for: the system must not be what keeps |g| up
        d, products = conjugate_gradients(
            hessian_product(phi, x),
            right,
            self.tolerance / 100,
            self.products,
        )
        d, direction = self.direction.apply(d, x, state.direction)
        outcome, step = self.step.search(phi, x, f, g, d, state.step)
        # a search takes |g| < 1e-8 for standing still; the last Newton steps are taken whole
        whole = (outcome.step == 0) & ~outcome.failed
        eta = torch.where(whole, torch.ones_like(f), outcome.step)
        eta = torch.where(moving, eta, torch.zeros_like(f))
        outcome = replace(
            outcome,
            step=eta,
            trials=torch.where(moving, outcome.trials, none),
            failed=outcome.failed & moving,
        )
        return NewtonStep(
            x=torch.where((eta == 0).unsqueeze(-1), x, x + scale(eta, d)),
            step=_of_moving(moving, step, state.step),
            direction=_of_moving(moving, direction, state.direction),
            outcome=outcome,
            products=products,
        )

    def _count_passes(
        self,
        phi: Objective,
        count: Tensor,
        live: Tensor,
        outcome: Outcome,
        products: Tensor,
    ) -> None:
        """Add what the trace does not know of: every pass goes through all the joined batches.

        A step needs one more gradient for the graph, a product two backward passes.
        """
        graph = (products > 0).long()
        more = count - 1  # the trace counts one batch a step
        forwards = more * (self.oracle.forwards * live + outcome.trials) + count * graph
        backwards = more * self.oracle.backwards * live + count * (graph + 2 * products)
        phi.work.add(1, int(forwards.sum()), int(backwards.sum()))


def conjugate_gradients(
    product: Callable[[Vec], Vec],
    right: Vec,
    tolerance: float,
    most: int,
) -> tuple[Vec, Tensor]:
    """Solve H z = right until |residual| <= tolerance * |right|, per client.

    Returns z and how many products it took. A direction of non-positive curvature ends it where it
    is; if it is the first, z = right.
    """
    z = torch.zeros_like(right)
    r = right
    p = right
    rr = norm_sq(r)
    least = tolerance**2 * rr
    used = torch.zeros_like(rr, dtype=torch.int64)
    active = rr > 0
    for _ in range(most):
        if not bool(active.any()):
            break
        h = product(p)
        curvature = dot(p, h)
        used = used + active
        flat = active & ~(curvature > 0)
        # steepest descent is left where the very first direction has no curvature
        flat_at_once = flat & (used == 1)
        z = torch.where(flat_at_once.unsqueeze(-1), right, z)
        active = active & ~flat
        a = torch.where(active, rr / curvature, torch.zeros_like(rr))
        z = z + scale(a, p)
        r = torch.where(active.unsqueeze(-1), r - scale(a, h), r)
        new = norm_sq(r)
        p = torch.where(active.unsqueeze(-1), r + scale(new / rr, p), p)
        rr = torch.where(active, new, rr)
        active = active & (rr > least)
    return z, used


def _of_moving(moving: Tensor, new: State, old: State) -> NewState:
    """The new state of the clients that move, the old one of the others."""
    # a search that a client at rest did not make must not change what it remembers
    after = {}
    for name, value in new.items():
        after[name] = torch.where(lift(moving, value), value, old[name])
    return {**old, **after}


def _at_rest(x: Vec, live: Tensor) -> StepRecord:
    """The record of a step that nobody takes any more."""
    none = x.new_zeros(x.shape[:-1])
    return replace(StepRecord.of(none, Outcome.free(none)), live=live)
