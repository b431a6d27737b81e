"""The constants of the theorems, measured along a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import TypeAlias

import torch

from fedstep.algorithm import Broadcast, Server
from fedstep.analysis.theory.curvature import DENSE, Function, spectrum
from fedstep.analysis.theory.landscape import Landscape
from fedstep.analysis.theory.measured import Gaps, IterateCurve, Measured, VisitedPoint
from fedstep.analysis.theory.minimum import Minimum, minimise
from fedstep.analysis.theory.step_sums import StepSums
from fedstep.analysis.theory.watch import NotedStep, Watching
from fedstep.core.errors import InputError
from fedstep.core.vec import Vec, norm_sq
from fedstep.execute.store import Store
from fedstep.local.directions import Steepest
from fedstep.local.solver import LocalSolver
from fedstep.run.record import RoundReport
from fedstep.run.simulate import Simulation
from fedstep.steps.conditions import Armijo
from fedstep.steps.references import Current
from fedstep.steps.search import LineSearch

COSTLY = 10  # clients that are asked for curvature and minimum where the model is not tiny
SMALL = 20_000  # parameters up to which the minimum of f is looked for
Rounds: TypeAlias = Iterable[tuple[Server, RoundReport]]


@dataclass(frozen=True)
class Backtracking:
    """What of a search the sums over steps need."""

    c: float  # NaN: not an Armijo search
    shrink: float  # between two trials along the negative gradient; 0: none


@dataclass(frozen=True)
class Descent:
    """The value of a function at a point, and the lowest one found from there."""

    start: float
    lowest: float  # at most `start`


def measure(
    sim: Simulation,
    rounds: int,
    points: int,
    most: int,
    show: Callable[[Rounds], Rounds] = lambda rows: rows,
) -> Measured:
    """Run and look: at `points` of the rounds, over at most `most` clients.

    `show` is told of the rounds as they pass.
    """
    for name, value in (("rounds", rounds), ("points", points), ("clients", most)):
        if value < 1:
            raise InputError(f"--{name} {value}: give at least 1")
    task = sim.task
    land = Landscape.of(task, most)
    start = task.model.init()
    # of a large network no descent of a minute finds the minimum
    best = None
    if land.model.linear or land.model.dim <= SMALL:
        best = minimise(land.mean, start)
    when = _watched_rounds(rounds, points)
    looks = {number: StepSums(number) for number in when}
    watched = _watching(sim, land, looks, rounds)
    first = watched.begin(rounds)
    series = show(watched.run(first, Store(), rounds))
    curve = IterateCurve()
    visited: list[VisitedPoint] = []
    x = start
    # curvature is costly: of a large model at the beginning, in the middle and at the end only
    curved_rounds = (0, when[len(when) // 2], rounds)
    for x in _walk(
        series,
        start,
        land,
        best,
        curve,
    ):
        t = len(curve.f) - 1
        if t in looks or t == rounds:
            curved = land.model.dim <= DENSE or t in curved_rounds
            visited.append(_visit(land, x, t, curved))
    population = range(len(task.federation))
    sizes = [task.federation.size(client) for client in population]
    return Measured(
        rounds=rounds,
        steps=max(task.plan.length(size) for size in sizes),
        population=len(sizes),
        clients=len(land.clients),
        linear=land.model.linear,
        full_rounds=sim.per_round == len(sizes),
        full_gradients=task.plan.batch >= max(sizes),
        points=tuple(visited),
        looks=tuple(looks.values()),
        curve=curve,
        best=best,
        gaps=_gaps(land, x, best),
        D2=curve.distance[0],
    )


def _watched_rounds(rounds: int, points: int) -> list[int]:
    """The first, the last and others evenly between them."""
    # a set: with more points than rounds some fall together
    watched = set()
    for i in range(points):
        number = round(i * (rounds - 1) / max(points - 1, 1))
        watched.add(number)
    return sorted(watched)


def _watching(
    sim: Simulation,
    land: Landscape,
    looks: dict[int, StepSums],
    rounds: int,
) -> Simulation:
    """The same run, whose local steps are summed up in the rounds of `looks`.

    Nothing else is evaluated.
    """
    search = _backtracking(sim.task.algorithm.local)

    def look(
        client: int,
        sent: Broadcast,
        notes: list[NotedStep],
    ) -> None:
        looks[sent.round].add(
            whole=land.whole(client).batch,
            anchor=sent.x,
            notes=notes,
            c=search.c,
            shrink=search.shrink,
        )

    executor = Watching(sim.executor, frozenset(looks), look)
    return replace(
        sim,
        executor=executor,
        every=rounds,
        train=False,
        test=None,
        heldout=None,
    )


def _walk(
    rows: Rounds,
    start: Vec,
    land: Landscape,
    best: Minimum | None,
    curve: IterateCurve,
) -> Iterator[Vec]:
    """w_0, w_1, ...; each is noted in the curve before it is yielded."""

    def note(x: Vec) -> None:
        distance = nan
        if best is not None:
            distance = float(norm_sq((x - best.x).double()))
        curve.f.append(land.value(x))
        curve.distance.append(distance)

    note(start)
    curve.f_mean.append(nan)
    yield start
    x = start
    mean = torch.zeros_like(start)
    for t, (server, row) in enumerate(rows):
        # before x moves on: w-bar is the mean of w_0 .. w_{T-1}
        mean = mean + (x - mean) / (t + 1)
        x = server.x
        note(x)
        curve.f_mean.append(land.value(mean))
        curve.eta_g.append(row.eta_g)
        yield x


def _backtracking(local: LocalSolver) -> Backtracking:
    step = local.step
    if not isinstance(step, LineSearch) or not isinstance(step.condition, Armijo):
        return Backtracking(nan, 0.0)
    from_here = isinstance(local.direction, Steepest) and isinstance(step.reference, Current)
    # other proposals shrink by factors of their own
    on_grid = not step.largest and step.proposal is None
    if not (from_here and on_grid):
        return Backtracking(step.condition.c, 0.0)
    return Backtracking(step.condition.c, step.shrink)


def _costly_clients(land: Landscape) -> Sequence[int]:
    """Those that are asked for curvature and minimum."""
    if land.model.dim <= DENSE:
        return land.clients
    return land.clients[:COSTLY]


def _visit(
    land: Landscape,
    x: Vec,
    t: int,
    curved: bool,
) -> VisitedPoint:
    clients: Sequence[int] = ()
    if curved:
        clients = _costly_clients(land)
    # a client with too few samples for a batch has none
    plan = land.task.plan
    federation = land.task.federation
    with_batches = [client for client in clients if plan.length(federation.size(client))]
    of_clients = []
    for client in clients:
        of_clients.append(spectrum(land.loss(client), x, client))
    of_batches = []
    for client in with_batches:
        batch_loss = land.on(land.first_batch(client))
        of_batches.append(spectrum(batch_loss, x, client))
    mean = None
    if land.model.dim <= DENSE:
        mean = spectrum(land.mean, x)
    slopes = land.slopes(x)
    return VisitedPoint(
        round=t,
        slope=slopes.of_mean,
        slopes=slopes.mean,
        clients=tuple(of_clients),
        batches=tuple(of_batches),
        mean=mean,
    )


def _gaps(
    land: Landscape,
    end: Vec,
    best: Minimum | None,
) -> Gaps:
    """Mean of the clients' lowest values.

    How far they are above it at one common point; the same for batches.
    """
    clients = _costly_clients(land)
    at = end
    if best is not None:
        at = best.x
    lowest: list[float] = []
    client_gaps: list[float] = []
    batch_gaps: list[float] = []
    for client in clients:
        whole = _descend(land.loss(client), at)
        batch_loss = land.on(land.first_batch(client))
        batch = _descend(batch_loss, at)
        lowest.append(whole.lowest)
        client_gaps.append(whole.start - whole.lowest)
        batch_gaps.append(batch.start - batch.lowest)
    sizes = torch.tensor([land.task.federation.size(client) for client in clients])
    weights = land.task.algorithm.weighting(sizes)
    shares = weights / weights.sum()

    def mean(values: list[float]) -> float:
        weighted = shares * torch.tensor(values, dtype=torch.float64)
        return float(weighted.sum())

    return Gaps(
        least=mean(lowest),
        client=mean(client_gaps),
        batch=mean(batch_gaps),
        clients=len(clients),
    )


def _descend(f: Function, x: Vec) -> Descent:
    with torch.no_grad():
        start = float(f(x))
    end = minimise(f, x).value
    # a gap is never negative
    return Descent(start, min(end, start))
