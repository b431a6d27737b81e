"""What the local steps of one round add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, nan

import torch

from fedstep.analysis.theory.watch import NotedStep
from fedstep.core.types import Batch
from fedstep.core.vec import Vec, norm_sq, scale
from fedstep.local.objective import Objective
from fedstep.local.oracles import Autograd


@dataclass
class StepSums:
    """Sums and extremes over the steps of the clients that were watched in a round."""

    round: int
    steps: int = 0  # of all clients
    failed: int = 0  # searches
    noise: float = 0.0  # sum |f_xi - f_i|
    energy: float = 0.0  # sum eta^2 |d|^2
    smooth: float = 0.0  # largest |g(x+) - g(x)| / |x+ - x|
    forced: float = 0.0  # largest smoothness that a search proves by having to shrink
    shortest: float = inf  # step taken
    floor: float = inf  # least batch loss
    drifts: list[float] = field(default_factory=list)  # a client's mean over steps of |x_k - w|^2
    limits: list[float] = field(default_factory=list)  # what Armijo's condition lets it be

    @property
    def kappa(self) -> float:
        """sum |f_xi - f_i| / sum eta^2 |g|^2: sums first, one division.

        Failed searches are left out.
        """
        if self.energy <= 0:
            return nan
        return self.noise / self.energy

    @property
    def drift(self) -> float:
        """The mean over clients."""
        return _mean(self.drifts)

    @property
    def limit(self) -> float:
        """The mean over clients."""
        return _mean(self.limits)

    def add(
        self,
        whole: Batch,
        anchor: Vec,
        notes: Sequence[NotedStep],
        c: float,
        shrink: float = 0.0,
    ) -> None:
        """The steps of one client.

        `whole` holds all its samples, shrink is 0 where no backtracking is done.
        """
        if not notes:
            return
        path = 0.0  # bounds sum_j eta_j^2 |g_j|^2 of the steps so far
        drift = 0.0
        limit = 0.0
        for k, note in enumerate(notes):
            drift += float(norm_sq(note.x - anchor))
            # |x_k - w|^2 <= k times the sum of the squared steps (Cauchy)
            limit += k * path
            self.steps += 1
            step = float(note.out.step)
            if bool(note.out.failed) or step == 0:
                self.failed += int(note.out.failed)
                continue
            path += self._taken(whole, note, step, c)
            # step / shrink was refused, so 2 (1 - c) / L is less
            if shrink and int(note.out.trials) > 1:
                forced = 2 * (1 - c) * shrink / step
                self.forced = max(self.forced, forced)
        self.drifts.append(drift / len(notes))
        self.limits.append(limit / len(notes))

    def _taken(
        self,
        whole: Batch,
        note: NotedStep,
        step: float,
        c: float,
    ) -> float:
        """One step that was taken; returns what bounds its squared length: eta times the decrease
        over c.
        """
        # the solver hands no other function to a step rule
        assert isinstance(note.phi, Objective)
        after = note.x + scale(note.out.step, note.d)
        value, g = Autograd()(note.phi, after)
        # the same function on all samples of the client
        loss = Objective(note.phi.ctx, whole, note.phi.terms)
        with torch.no_grad():
            on_all = float(loss(note.x))
        self.noise += abs(float(note.f) - on_all)
        self.energy += step**2 * float(norm_sq(note.g))
        length = float(norm_sq(after - note.x))
        if length > 0:
            change = float(norm_sq(g - note.g))
            smooth = (change / length) ** 0.5
            self.smooth = max(self.smooth, smooth)
        self.shortest = min(self.shortest, step)
        self.floor = min(self.floor, float(value), float(note.f))
        decrease = float(note.f) - float(value)
        return step * decrease / c


def _mean(values: Sequence[float]) -> float:
    if not values:
        return nan
    return sum(values) / len(values)
