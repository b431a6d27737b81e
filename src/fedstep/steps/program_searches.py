"""Searches of the authors' program that test another decrease than the one along phi's slope."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, Scalar, State, Vec, norm_sq
from fedstep.steps.resets import Grow
from fedstep.steps.rule import Outcome, Parted, Phi, StepRule
from fedstep.steps.search import LineSearch
from fedstep.steps.tested import Tested

SHORTEST = 1e-6  # a tilted direction that is shorter is not searched along


@dataclass(frozen=True)
class DirectionAsGradient(StepRule):
    """Search as if -d were the gradient.

        f(x + eta d) <= f(x) - c eta |d|^2

    It differs from the condition along the slope <g, d> where d is clipped or has weight decay.
    With weight decay d may lead uphill on f; the search then fails.
    """

    grid: LineSearch = LineSearch()  # the search itself
    carry: bool = False

    def __post_init__(self) -> None:
        check_slots(self, grid=LineSearch)

    def init(self, x: Vec) -> NewState:
        return self.grid.init(x)

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, NewState]:
        return self.grid.search(phi, x, f, -d, d, state)


@dataclass(frozen=True)
class DriftSearch(StepRule):
    """Search on the client's loss alone, along a direction that a correction tilts.

        f(x + eta d) <= f(x) - eta (gradient |g|^2 + length |d|^2 - drift |h|^2)
                             + bend eta^2 |h|^2

    f is the loss without the terms, g its gradient, h the gradient of the terms (c - c_i under
    SCAFFOLD) and d = -(g + h). f may rise where |h| is large, and no step need satisfy the
    condition where h turns d uphill: the search then fails. `grid` has start, reset, shrink and
    failure; its condition is not used. For terms of x alone.
    """

    gradient: float = 0.5  # of |g|^2, asked for
    length: float = 0.05  # of |d|^2, asked for
    drift: float = 0.5  # of |h|^2, forgiven
    bend: float = 0.0  # of eta |h|^2, forgiven
    grid: LineSearch = LineSearch(reset=Grow(2.0))  # of the steps that are tried
    carry: bool = False

    def __post_init__(self) -> None:
        check_slots(self, grid=LineSearch)
        if not min(self.gradient, self.length, self.drift, self.bend) >= 0:
            raise InputError(
                f"DriftSearch(gradient={self.gradient}, length={self.length}, drift={self.drift}, "
                f"bend={self.bend}): all must be 0 or more"
            )

    def init(self, x: Vec) -> NewState:
        return self.grid.init(x)

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, NewState]:
        if not isinstance(phi, Parted):
            raise InputError("DriftSearch tells the loss from its terms: use it in a LocalSolver")
        loss, at_x, h = phi.parted(x)
        ray = loss.along(x, d)
        drift, length = norm_sq(h), norm_sq(d)
        asked = self.gradient * norm_sq(g - h) + self.length * length - self.drift * drift

        def passes(eta: Scalar, rows: Tensor | None) -> Tensor:
            some = ... if rows is None else rows
            rise = self.bend * eta * eta * drift[some]
            return ray(eta, rows) <= at_x[some] - eta * asked[some] + rise

        # no move along a direction too short to be one, as the program has it
        way = torch.where((length >= SHORTEST**2).unsqueeze(-1), -d, 0.0)
        return self.grid.search(Tested(loss, at_x, -length, passes), x, at_x, way, d, state)
