"""Looking over the clients' shoulders: the run is the same, every local step of some rounds is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan

import torch
from torch import Tensor

from fedstep.algorithm import Broadcast, Update
from fedstep.core.aggregate import Aggregate
from fedstep.core.types import Batch
from fedstep.core.vec import Scalar, State, Vec, norm_sq, scale
from fedstep.execute.base import Executor
from fedstep.execute.sequential import Sequential
from fedstep.execute.store import Store
from fedstep.execute.task import Task
from fedstep.local.objective import Objective
from fedstep.local.oracles import Autograd
from fedstep.steps.rule import Outcome, Phi, StepRule


@dataclass(frozen=True)
class Seen:
    """One local step: the batch's function, where it was taken, and what was found."""

    phi: Phi
    x: Vec
    f: Scalar
    g: Vec
    d: Vec
    out: Outcome


@dataclass(frozen=True)
class Watched(StepRule):
    """Another rule, and a note of every step."""

    rule: StepRule
    notes: list[Seen]
    carry: bool = False

    @staticmethod
    def of(rule: StepRule, notes: list[Seen]) -> Watched:
        return Watched(rule, notes, rule.carry)

    def init(self, x: Vec) -> dict[str, Tensor]:
        return self.rule.init(x)

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        return self.rule.shared_init(x)

    def begin(self, x: Vec, shared: State, memory: State) -> dict[str, Tensor]:
        return self.rule.begin(x, shared, memory)

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, dict[str, Tensor]]:
        out, after = self.rule.search(phi, x, f, g, d, state)
        self.notes.append(Seen(phi, x, f, g, d, out))
        return out, after

    def message(self, state: State) -> dict[str, Tensor]:
        return self.rule.message(state)

    def fold(self, shared: State, message: State, agg: Aggregate) -> dict[str, Tensor]:
        return self.rule.fold(shared, message, agg)


@dataclass(frozen=True)
class Watching(Executor):
    """An executor that runs the clients of some rounds one by one and shows their steps; the others as the inner one does."""

    inner: Executor
    rounds: frozenset[int]
    show: Callable[[int, Broadcast, list[Seen]], None]  # client, what it was sent, its steps

    def __call__(
        self, task: Task, sent: Broadcast, cohort: Sequence[int], store: Store, probe: bool = False
    ) -> Iterator[Update]:
        if probe or sent.round not in self.rounds:
            yield from self.inner(task, sent, cohort, store, probe)
            return
        for client in cohort:
            notes: list[Seen] = []
            step = Watched.of(task.algorithm.local.step, notes)
            watched = replace(task.algorithm, local=replace(task.algorithm.local, step=step))
            yield from Sequential()(replace(task, algorithm=watched), sent, [client], store)
            self.show(client, sent, notes)


@dataclass
class Sums:
    """What the local steps of one round add up to."""

    round: int
    steps: int = 0
    failed: int = 0
    noise: float = 0.0  # sum |f_xi - f_i|
    energy: float = 0.0  # sum eta^2 |d|^2
    smooth: float = 0.0  # largest |g(x+) - g(x)| / |x+ - x|
    forced: float = 0.0  # largest smoothness that a search proves by having to shrink
    shortest: float = inf  # step taken
    floor: float = inf  # least batch loss
    drifts: list[float] = field(
        default_factory=list
    )  # mean over the steps of |x_k - w|^2, per client
    limits: list[float] = field(default_factory=list)  # what Armijo's condition lets it be

    @property
    def kappa(self) -> float:
        """sum |f_xi - f_i| / sum eta^2 |g|^2: sums first, one division, failed searches left out."""
        return self.noise / self.energy if self.energy > 0 else nan

    @property
    def drift(self) -> float:
        return sum(self.drifts) / len(self.drifts) if self.drifts else nan

    @property
    def limit(self) -> float:
        return sum(self.limits) / len(self.limits) if self.limits else nan

    def add(
        self, whole: Batch, anchor: Vec, notes: Sequence[Seen], c: float, shrink: float = 0.0
    ) -> None:
        """The steps of one client; `whole` holds all its samples, shrink is 0 where no backtracking is done."""
        path, drift, limit = 0.0, 0.0, 0.0
        for k, seen in enumerate(notes):
            drift += float(norm_sq(seen.x - anchor))
            limit += k * path
            self.steps += 1
            step = float(seen.out.step)
            if bool(seen.out.failed) or step == 0:
                self.failed += int(seen.out.failed)
                continue
            path += self._step(whole, seen, step, c)
            if (
                shrink and int(seen.out.trials) > 1
            ):  # step / shrink was refused, so 2 (1 - c) / L is less
                self.forced = max(self.forced, 2 * (1 - c) * shrink / step)
        if notes:
            self.drifts.append(drift / len(notes))
            self.limits.append(limit / len(notes))

    def _step(self, whole: Batch, seen: Seen, step: float, c: float) -> float:
        """One step that was taken; returns what bounds its squared length: eta times the decrease over c."""
        after = seen.x + scale(seen.out.step, seen.d)
        assert isinstance(seen.phi, Objective)
        value, g = Autograd()(seen.phi, after)
        length = float(norm_sq(after - seen.x))
        with torch.no_grad():
            loss = Objective(seen.phi.ctx, whole, seen.phi.terms)
            self.noise += abs(float(seen.f) - float(loss(seen.x)))
        self.energy += step**2 * float(norm_sq(seen.g))
        if length > 0:
            self.smooth = max(self.smooth, (float(norm_sq(g - seen.g)) / length) ** 0.5)
        self.shortest = min(self.shortest, step)
        self.floor = min(self.floor, float(value), float(seen.f))
        return step * (float(seen.f) - float(value)) / c
