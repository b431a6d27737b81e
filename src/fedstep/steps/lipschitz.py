"""A search that compares gradients instead of values."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, Scalar, State, Vec, dot, norm_sq, scale
from fedstep.steps.resets import Grow
from fedstep.steps.rule import Differentiable, Outcome, Phi, StepRule
from fedstep.steps.search import LineSearch
from fedstep.steps.tested import Tested


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
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, NewState]:
        if not isinstance(phi, Differentiable):
            raise InputError(
                "LipschitzSearch compares gradients at the trials: use it in a LocalSolver"
            )

        def steady(eta: Scalar, rows: Tensor | None) -> Tensor:
            some = ... if rows is None else rows
            at = phi if rows is None else phi.rows(rows)
            # counted here because the loop of trials counts forward passes only
            at.work.add(eta.numel(), 0, 1)
            _, there = at.gradient(x[some] + scale(eta, d[some]))
            change = norm_sq(there - g[some])
            return (eta / self.c) ** 2 * change <= eta**2 * norm_sq(d[some])

        return self.grid.search(Tested(phi, f, dot(g, d), steady), x, f, g, d, state)
