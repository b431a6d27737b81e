"""What the theorems ask for, measured along a run of FedSLS or FedExpSLS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from itertools import chain
from math import isnan, nan
from typing import Any, TypeAlias

import torch

from fedstep.algorithm import Server
from fedstep.analysis.theory import bounds
from fedstep.analysis.theory.noted import NotedSearch
from fedstep.core.errors import InputError
from fedstep.core.seeds import generator
from fedstep.core.types import Batch, Context
from fedstep.core.vec import Scalar, Vec, norm_sq
from fedstep.execute.sequential import Sequential
from fedstep.execute.store import Store
from fedstep.execute.task import Task
from fedstep.local.objective import Objective
from fedstep.run.simulate import Simulation
from fedstep.server.rules import Extrapolate, Step
from fedstep.steps.conditions import Armijo
from fedstep.steps.search import LineSearch

SMALL = 20_000  # parameters up to which the minimum of a model that is not linear is looked for
Rows: TypeAlias = Iterable[tuple[Server, Any]]


@dataclass(frozen=True)
class ClientRound:
    """A client's K steps of a round: their mean stands for the expectation."""

    round: int
    client: int
    before: float  # sum |f_xi - f_i| at w_{k-1}, over sum eta^2 |g|^2; NaN: no step was taken
    after: float  # the same at w_k
    L: float  # the largest that its steps and refused trials prove
    failed: int  # searches, left out of the sums


@dataclass(frozen=True)
class Hypothesis:
    """A number that must be below a limit; the paper asks for a gap of 0."""

    theorems: str
    what: str
    found: float
    limit: float

    @property
    def holds(self) -> str:
        if isnan(self.found) or isnan(self.limit):
            return "not measured"
        return "not refuted" if self.found < self.limit else "fails"


@dataclass(frozen=True)
class Measured:
    """The constants of a method and of its run."""

    c: float
    max_step: float
    eta_g: float  # 1 for FedExpSLS
    steps: int  # K
    rounds: tuple[ClientRound, ...]
    gap: float  # the largest f_i(w*) - min f_i; NaN: not looked for
    fall: float  # f(w_0) - f(w*)

    @property
    def kappa(self) -> float:
        """The largest over clients and rounds, at w_{k-1} and at w_k."""
        sides = [side for one in self.rounds for side in (one.before, one.after)]
        return max((side for side in sides if not isnan(side)), default=nan)

    @property
    def L(self) -> float:
        """A lower bound of the true one."""
        return max(one.L for one in self.rounds)

    @property
    def hypotheses(self) -> list[Hypothesis]:
        c, max_step, kappa = self.c, self.max_step, self.kappa
        limit = bounds.step_limit(c, self.eta_g, self.steps, self.L, kappa)
        return [
            Hypothesis("all", "kappa_f < c / (2 eta_max)", kappa, bounds.kappa_limit(c, max_step)),
            Hypothesis("1", "1/2 < c' = c - 2 kappa_f eta_max", 0.5, c - 2 * kappa * max_step),
            Hypothesis("2, 3, 5, 6", "eta_max < (2c - eta_g) / (K L + 4 kappa_f)", max_step, limit),
            Hypothesis(
                "2 - 7", "f_i(w*) - min f_i < (f(w_0) - f*)/1000", self.gap, self.fall / 1000
            ),
        ]

    def record(self) -> dict[str, Any]:
        """For a file."""
        hypotheses = [asdict(one) | {"holds": one.holds} for one in self.hypotheses]
        return asdict(self) | {"kappa": self.kappa, "L": self.L, "hypotheses": hypotheses}


def measure(
    sim: Simulation,
    rounds: int,
    points: int,
    most: int,
    show: Callable[[Rows], Rows] = lambda rows: rows,
) -> Measured:
    """Run, and look at the K steps that `most` clients take from the model of `points` rounds."""
    for name, value in (("rounds", rounds), ("points", points), ("clients", most)):
        if value < 1:
            raise InputError(f"--{name} {value}: give at least 1")
    task, algorithm = sim.task, sim.task.algorithm
    search, server = algorithm.local.step, algorithm.server
    if (
        not isinstance(search, LineSearch)
        or not isinstance(search.condition, Armijo)
        or not isinstance(server, Step | Extrapolate)
    ):
        raise InputError("the theorems are of FedSLS and FedExpSLS: give --method one of them")
    c = search.condition.c
    noted = NotedSearch.of(search)
    local = replace(algorithm.local, step=noted)
    watched = replace(task, algorithm=replace(algorithm, local=local))
    draw = generator(task.seed, "theory")  # of its own: looking does not change the run
    clients = torch.randperm(len(task.federation), generator=draw)[:most].tolist()
    when = {round(place * (rounds - 1) / max(points - 1, 1)) for place in range(points)}
    quiet = replace(sim, every=rounds, train=False, test=None, heldout=None)
    first = sim.begin(rounds)
    found = []
    for state in chain([first], (row[0] for row in show(quiet.run(first, Store(), rounds)))):
        end = state.x
        for client in clients if state.round in when else ():
            noted.notes.clear()
            list(Sequential()(watched, algorithm.broadcast(state), [client], Store()))
            found.append(_sums(state.round, client, _whole(task, client), noted, c))
    gap, fall = _gap(task, clients, end)
    return Measured(
        c=c,
        max_step=search.max_step,
        eta_g=server.step if isinstance(server, Step) else 1.0,
        steps=max(task.plan.length(task.federation.size(client)) for client in clients),
        rounds=tuple(found),
        gap=gap,
        fall=fall,
    )


def _whole(task: Task, client: int) -> Batch:
    """All samples of a client as one batch."""
    data = task.federation
    fields = tuple(field[data.parts[client]] for field in data.fields)
    # without a generator there is no augmentation, as in evaluation
    if data.transform is not None:
        fields = data.transform(fields, None)
    device = task.model.init().device
    one = torch.tensor(1.0, dtype=torch.float64)
    return Batch(tuple(field.to(device) for field in fields), one, torch.tensor(0))


def _sums(number: int, client: int, whole: Batch, search: NotedSearch, c: float) -> ClientRound:
    before = after = energy = L = 0.0
    failed = 0
    for note in search.notes:
        failed += int(note.out.failed)
        if bool(note.out.failed) or not note.energy:
            continue
        f_i = Objective(note.phi.ctx, whole, note.phi.terms)
        value, g = note.phi.gradient(note.after)
        with torch.no_grad():
            before += abs(float(note.f) - float(f_i(note.x)))
            after += abs(float(value) - float(f_i(note.after)))
        energy += note.energy
        L = max(L, float((norm_sq(g - note.g) / norm_sq(note.after - note.x)).sqrt()))
        # on a grid, step / shrink was refused: L is above 2 (1 - c) over it
        if int(note.out.trials) > 1 and search.proposal is None and not search.largest:
            L = max(L, 2 * (1 - c) * search.shrink / float(note.out.step))
    if not energy:
        return ClientRound(number, client, nan, nan, L, failed)
    return ClientRound(number, client, before / energy, after / energy, L, failed)


def _gap(task: Task, clients: list[int], end: Vec) -> tuple[float, float]:
    """The largest f_i(w*) - min f_i, and f(w_0) - f(w*): w* is the lowest point of these f."""
    model = task.model.evaluating()
    if not model.linear and model.dim > SMALL:
        return nan, nan
    context = Context(model.init(), model)
    each = [Objective(context, _whole(task, i), task.algorithm.local.terms) for i in clients]
    weights = task.algorithm.weighting(task.federation.sizes_of(clients))

    def f(x: Vec) -> Scalar:
        values = torch.stack([f_i(x) for f_i in each])
        return (values * weights.to(values)).sum() / weights.sum()

    best = _lowest(f, end)
    with torch.no_grad():
        gaps = [float(f_i(best)) - float(f_i(_lowest(f_i, best))) for f_i in each]
        return max(gaps), float(f(model.init())) - float(f(best))


def _lowest(f: Callable[[Vec], Scalar], start: Vec) -> Vec:
    """Where 60 steps of L-BFGS end, if that is lower."""
    x = start.detach().clone().requires_grad_()
    search = torch.optim.LBFGS(
        [x], max_iter=60, tolerance_grad=0.0, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def closure() -> Scalar:
        value = f(x)
        (x.grad,) = torch.autograd.grad(value, x)
        return value.detach()

    with torch.enable_grad():
        search.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        return x.detach() if f(x) < f(start) else start
