"""A line search that keeps a note of every step it takes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from fedstep.core.vec import NewState, Scalar, State, Vec, norm_sq
from fedstep.local.objective import Objective
from fedstep.steps.rule import Outcome, Phi
from fedstep.steps.search import LineSearch


@dataclass(frozen=True)
class NotedStep:
    """One local step along -g: the batch's function, where it was taken, and what was found."""

    phi: Objective
    x: Vec  # before the step
    f: Scalar  # phi(x)
    g: Vec  # its gradient
    out: Outcome

    @property
    def after(self) -> Vec:
        return self.x - self.out.step * self.g

    @property
    def gain(self) -> float:
        """eta |g|^2."""
        return float(self.out.step) * float(norm_sq(self.g))

    @property
    def energy(self) -> float:
        """eta^2 |g|^2."""
        return float(self.out.step) * self.gain


@dataclass(frozen=True)
class NotedSearch(LineSearch):
    """The same search, with notes."""

    notes: list[NotedStep] = field(default_factory=list)  # appended to

    @staticmethod
    def of(search: LineSearch) -> NotedSearch:
        return NotedSearch(**{part.name: getattr(search, part.name) for part in fields(LineSearch)})

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, NewState]:
        assert isinstance(phi, Objective)  # the solver hands no other function to a step rule
        out, after = super().search(phi, x, f, g, d, state)
        self.notes.append(NotedStep(phi, x, f, g, out))
        return out, after
