"""Small problems in float64 on which the theorems are tried, run by the library's own methods."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.algorithm import Algorithm
from fedstep.analysis.theory.noted import NotedSearch, NotedStep
from fedstep.core.seeds import generator
from fedstep.core.types import Batch
from fedstep.core.vec import norm_sq
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute.store import Store
from fedstep.execute.task import Task
from fedstep.local.solver import LocalSolver
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.server.rules import ServerRule, Step
from fedstep.steps.conditions import Armijo
from fedstep.steps.resets import Restart


@dataclass(frozen=True)
class Path:
    """w_0 .. w_T, and every local step in the order of rounds, clients and steps."""

    points: Tensor  # (T + 1, d)
    notes: list[NotedStep]

    def mean(self, first: int) -> Tensor:
        """w-bar: the mean of T models from w_first on."""
        return self.points[first : first + len(self.points) - 1].mean(0)


@dataclass(frozen=True)
class Quadratics:
    """f_i(w) = w' Q_i w / 2, one a client, with full gradients: w* = 0, f* = 0, kappa_f = 0."""

    Q: Tensor  # (N, d, d)
    w0: Tensor

    @property
    def L(self) -> float:
        return float(torch.linalg.eigvalsh(self.Q).max())

    @property
    def mu(self) -> float:
        return float(torch.linalg.eigvalsh(self.Q).min())

    def f(self, w: Tensor) -> float:
        return float(torch.einsum("i,nij,j->n", w, self.Q, w).mean() / 2)

    def slope(self, w: Tensor) -> float:
        """|grad f(w)|^2."""
        return float(norm_sq(self.Q.mean(0) @ w))

    def run(
        self, c: float, max_step: float, K: int, T: int, server: ServerRule | None = None
    ) -> Path:
        """FedSLS (eta_g = 1) or another server; a search takes the largest acceptable step."""
        search = NotedSearch(
            Armijo(c), Restart(), max_step=max_step, shrink=0.5, largest=True, tolerance=1e-8
        )

        def loss(w: Tensor, batch: Batch) -> Tensor:
            return torch.einsum("i,bij,j->b", w, batch.inputs, w) / 2

        task = Task(
            Algorithm(LocalSolver(search), server or Step(1.0)),
            FunctionModel(loss, self.w0),
            Federation.of([(q[None], torch.zeros(1)) for q in self.Q]),
            Plan(1, K, order=InOrder()),
        )
        simulation = Simulation(task, len(self.Q))
        rows = simulation.run(simulation.begin(T), Store(), T)
        return Path(torch.stack([self.w0, *(state.x for state, _ in rows)]), search.notes)


def parabola(curvature: float = 1.0, clients: int = 1) -> Quadratics:
    """curvature w^2 / 2 for every client, from w_0 = 1."""
    Q = torch.full((clients, 1, 1), curvature, dtype=torch.float64)
    return Quadratics(Q, torch.ones(1, dtype=torch.float64))


def random_quadratics(seed: int) -> Quadratics:
    """Three clients in three dimensions with a common minimiser."""
    draw = generator(seed, "theorems")
    roots = torch.randn(3, 3, 3, generator=draw, dtype=torch.float64)
    return Quadratics(roots @ roots.mT, torch.randn(3, generator=draw, dtype=torch.float64))


@dataclass(frozen=True)
class LeastSquares:
    """One client with the samples f_xi(w) = (<a_xi, w> - b_xi)^2 / 2, batches of one."""

    a: Tensor  # (n, d)
    b: Tensor  # (n,)

    @staticmethod
    def random(seed: int, spread: float) -> LeastSquares:
        """Six samples in three dimensions; with spread 0 one w fits all."""
        draw = generator(seed, "theorems")
        numbers = torch.randn(6, 5, generator=draw, dtype=torch.float64)
        a = numbers[:, :3]
        return LeastSquares(a, a @ numbers[:3, 3] + spread * numbers[:, 4])

    @property
    def best(self) -> Tensor:
        """A minimiser of f."""
        inverse: Tensor = torch.linalg.pinv(self.a)
        return inverse @ self.b

    def losses(self, w: Tensor) -> Tensor:
        """f_xi of every sample; for several w of shape (m, d), of shape (m, n)."""
        return torch.square(w @ self.a.mT - self.b) / 2

    def gap(self, w: Tensor) -> float:
        """f(w) - f*."""
        return float(self.losses(w).mean() - self.losses(self.best).mean())

    def noise(self, w: Tensor, c: float, max_step: float) -> FunctionNoise:
        """Every sample takes its largest Armijo step, min(eta_max, 2 (1 - c) / |a|^2)."""
        step = (2 * (1 - c) / norm_sq(self.a)).clamp(max=max_step)
        g = (self.a @ w - self.b)[:, None] * self.a
        before = self.losses(w)
        after = self.losses(w - step[:, None] * g)
        return FunctionNoise(
            before=float((before - before.mean()).abs().mean()),
            after=float((after.diagonal() - after.mean(1)).abs().mean()),
            energy=float((step.square() * norm_sq(g)).mean()),
        )


@dataclass(frozen=True)
class FunctionNoise:
    """Both sides of the definition of kappa_f, in expectation over the samples of a client."""

    before: float  # |f_xi - f| at w_{k-1}
    after: float  # |f_xi - f| at w_k
    energy: float  # eta^2 |g|^2

    @property
    def kappa(self) -> float:
        """The smallest kappa_f for which both inequalities hold."""
        return max(self.before, self.after) / self.energy
