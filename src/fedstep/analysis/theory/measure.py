"""The constants of the theorems, measured along a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf, nan, sqrt

import torch

from fedstep.algorithm import Broadcast, Server
from fedstep.analysis.theory.curvature import DENSE, Minimum, Spectrum, minimise, spectrum
from fedstep.analysis.theory.landscape import Landscape
from fedstep.analysis.theory.watch import Seen, Sums, Watching
from fedstep.core.errors import InputError
from fedstep.core.types import Batch
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
Rounds = Iterable[tuple[Server, RoundReport]]


@dataclass(frozen=True)
class Point:
    """The server's model before a round (or after the last), and what the clients' functions are there."""

    round: int
    slope: float  # |grad f|^2
    slopes: float  # mean |grad f_i|^2
    clients: tuple[Spectrum, ...] = ()
    batches: tuple[Spectrum, ...] = ()
    mean: Spectrum | None = None


@dataclass(frozen=True)
class Curve:
    """A number for every round: f(w_t), f of the mean of w_0 .. w_{t-1}, |w_t - w*|^2, and the server's steps."""

    f: list[float] = field(default_factory=list)
    f_mean: list[float] = field(default_factory=list)
    distance: list[float] = field(default_factory=list)
    eta_g: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Measured:
    """All that was measured of one run; `best` is the lowest point found of f, None where it was not looked for."""

    rounds: int
    steps: int  # K
    population: int
    clients: int  # that f is the mean of
    linear: bool  # predictions are linear in the parameters
    full_rounds: bool  # all clients in every round
    full_gradients: bool  # every batch holds all samples of its client
    points: tuple[Point, ...]
    looks: tuple[Sums, ...]
    curve: Curve
    best: Minimum | None
    least: float  # mean over some clients of the lowest value found of f_i
    client_gap: float  # mean over the same clients of f_i at `best` (else at the end) less that
    batch_gap: float  # the same on single batches
    asked: int  # clients behind the three numbers above
    D2: float

    @property
    def smooth(self) -> dict[str, float]:
        """The largest smoothness seen: of clients, of batches, along the steps, and by the searches that had to shrink."""
        return {
            "clients": max((s.high for p in self.points for s in p.clients), default=nan),
            "batches": max((s.high for p in self.points for s in p.batches), default=nan),
            "steps": max((look.smooth for look in self.looks), default=nan),
            "searches": max((look.forced for look in self.looks if look.forced), default=nan),
        }

    @property
    def L(self) -> float:
        return max((v for v in self.smooth.values() if v == v), default=nan)

    @property
    def lowest(self) -> float:
        """The smallest curvature of a client or batch."""
        return min((s.low for p in self.points for s in (*p.clients, *p.batches)), default=nan)

    @property
    def lowest_mean(self) -> float:
        """The smallest curvature of f."""
        return min((p.mean.low for p in self.points if p.mean), default=nan)

    @property
    def exact(self) -> bool:
        """Whether the curvatures are those of whole Hessians."""
        return all(s.exact for p in self.points for s in (*p.clients, *p.batches))

    @property
    def constant(self) -> bool:
        """Whether every client has the same curvatures at all points, as a quadratic has."""
        ends = [[(s.low, s.high) for s in p.clients] for p in self.points if p.clients]
        close = 1e-7 * max(self.L, 1e-300)
        same = (
            abs(a - b) <= close
            for later in ends[1:]
            for x, y in zip(ends[0], later, strict=True)
            for a, b in zip(x, y, strict=True)
        )
        return self.exact and len(ends) > 1 and all(same)

    @property
    def kappa(self) -> float:
        return max((look.kappa for look in self.looks if look.kappa == look.kappa), default=nan)

    @property
    def B(self) -> float:
        """The smallest B with mean |grad f_i|^2 <= B^2 |grad f|^2 at the points."""
        ratios = [
            sqrt(p.slopes / p.slope) if p.slope > 0 else inf
            for p in self.points
            if p.slopes > 1e-24
        ]
        return max(ratios, default=nan)

    @property
    def G(self) -> float:
        """The smallest G with mean |grad f_i|^2 <= G^2 + |grad f|^2 at the points."""
        return max((sqrt(max(p.slopes - p.slope, 0.0)) for p in self.points), default=nan)

    @property
    def failed(self) -> int:
        return sum(look.failed for look in self.looks)

    @property
    def rises(self) -> int:
        """Rounds after which f was higher."""
        f = self.curve.f
        return sum(b > a for a, b in pairwise(f))

    @property
    def floor(self) -> float:
        """The least batch loss seen."""
        return min((look.floor for look in self.looks), default=nan)


def measure(
    sim: Simulation,
    rounds: int,
    points: int,
    most: int,
    show: Callable[[Rounds], Rounds] = lambda rows: rows,
) -> Measured:
    """Run and look: at `points` of the rounds, over at most `most` clients. `show` is told of the rounds as they pass."""
    for name, value in (("rounds", rounds), ("points", points), ("clients", most)):
        if value < 1:
            raise InputError(f"--{name} {value}: give at least 1")
    task, land = sim.task, Landscape.of(sim.task, most)
    when = sorted({round(i * (rounds - 1) / max(points - 1, 1)) for i in range(points)})
    start = task.model.init()
    best = minimise(land.mean, start) if _worth(land) else None
    looks = {r: Sums(r) for r in when}
    c, shrink = _armijo(task.algorithm.local)

    def look(client: int, sent: Broadcast, notes: list[Seen]) -> None:
        looks[sent.round].add(land.whole(client).batch, sent.x, notes, c, shrink)

    watching = replace(
        sim,
        executor=Watching(sim.executor, frozenset(when), look),
        every=rounds,
        train=False,
        test=None,
    )
    found, curve, x = list[Point](), Curve(), start
    for x in _walk(
        show(replace(watching, heldout=None).run(watching.begin(rounds), Store(), rounds)),
        start,
        land,
        best,
        curve,
    ):
        t = len(curve.f) - 1
        if t in looks or t == rounds:
            found.append(
                _point(
                    land, x, t, land.model.dim <= DENSE or t in (0, when[len(when) // 2], rounds)
                )
            )
    least, client_gap, batch_gap, asked = _gaps(land, x, best)
    sizes = [task.federation.size(i) for i in range(len(task.federation))]
    return Measured(
        rounds=rounds,
        steps=max(task.plan.length(n) for n in sizes),
        population=len(sizes),
        clients=len(land.clients),
        linear=land.model.linear,
        full_rounds=sim.per_round == len(sizes),
        full_gradients=task.plan.batch >= max(sizes),
        points=tuple(found),
        looks=tuple(looks.values()),
        curve=curve,
        best=best,
        least=least,
        client_gap=client_gap,
        batch_gap=batch_gap,
        asked=asked,
        D2=curve.distance[0],
    )


def _walk(
    rows: Rounds, start: Vec, land: Landscape, best: Minimum | None, curve: Curve
) -> Iterator[Vec]:
    """w_0, w_1, ...; each is noted in the curve before it is yielded."""

    def note(x: Vec) -> None:
        curve.f.append(land.value(x))
        curve.distance.append(nan if best is None else float(norm_sq((x - best.x).double())))

    note(start)
    curve.f_mean.append(nan)
    yield start
    x, mean = start, torch.zeros_like(start)
    for t, (server, row) in enumerate(rows):
        mean = mean + (x - mean) / (t + 1)
        x = server.x
        note(x)
        curve.f_mean.append(land.value(mean))
        curve.eta_g.append(row.eta_g)
        yield x


def _worth(land: Landscape) -> bool:
    """Whether the minimum of f can be looked for: a linear model, or one that is small."""
    return land.model.linear or land.model.dim <= 20_000


def _armijo(local: LocalSolver) -> tuple[float, float]:
    """c, and the factor between two trials along the negative gradient (0: none)."""
    step = local.step
    if not isinstance(step, LineSearch) or not isinstance(step.condition, Armijo):
        return nan, 0.0
    grid = isinstance(local.direction, Steepest) and isinstance(step.reference, Current)
    grid = (
        grid and not step.largest and step.proposal is None
    )  # other proposals shrink by factors of their own
    return step.condition.c, step.shrink if grid else 0.0


def _asked(land: Landscape) -> tuple[int, ...]:
    return tuple(land.clients if land.model.dim <= DENSE else land.few(COSTLY))


def _batch(land: Landscape, client: int) -> Batch:
    """A client's first batch of the first round."""
    task, x = land.task, land.model.init()
    index = task.batches(client, 0)[0]
    seed = torch.tensor(task.step_seed(client, 0, 0))
    return task.gather(
        index, torch.tensor(len(index) / task.federation.size(client)), seed, None, x
    )


def _point(land: Landscape, x: Vec, t: int, curved: bool) -> Point:
    asked = _asked(land) if curved else ()
    clients = tuple(spectrum(land.loss(c), x, c) for c in asked)
    batches = tuple(
        spectrum(land.on(_batch(land, c)), x, c)
        for c in asked
        if land.task.plan.length(land.task.federation.size(c))
    )
    mean = spectrum(land.mean, x) if land.model.dim <= DENSE else None
    return Point(t, *land.slopes(x), clients, batches, mean)


def _gaps(land: Landscape, end: Vec, best: Minimum | None) -> tuple[float, float, float, int]:
    """Mean of the clients' lowest values; how far they are above it at one common point; the same for batches."""
    asked, at = _asked(land), end if best is None else best.x
    sizes = land.task.algorithm.weighting(
        torch.tensor([land.task.federation.size(c) for c in asked])
    )
    least, clients, batches = [], [], []
    for c in asked:
        f, own = land.loss(c), land.on(_batch(land, c))
        with torch.no_grad():
            here, there = float(f(at)), float(own(at))
        lowest = min(minimise(f, at).value, here)
        least.append(lowest)
        clients.append(here - lowest)
        batches.append(there - min(minimise(own, at).value, there))
    weights = sizes / sizes.sum()
    averages = [
        float((weights * torch.tensor(v, dtype=torch.float64)).sum())
        for v in (least, clients, batches)
    ]
    return averages[0], averages[1], averages[2], len(asked)
