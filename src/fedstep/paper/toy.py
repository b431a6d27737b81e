"""Figure 1 of the paper: two clients in the plane, F1 = (w1 + w2 - 3)^2 and F2 = (w1 + 2 w2 - 3)^2, minimum at (3, 0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from operator import add
from typing import ClassVar

from fedstep import zoo
from fedstep.algorithm import Algorithm, Update
from fedstep.core.aggregate import Aggregate
from fedstep.core.types import Context
from fedstep.core.vec import Scalar, State, Vec, norm_sq
from fedstep.corrections.base import Correction, Finished
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.data.tasks import load
from fedstep.execute.sequential import Sequential
from fedstep.execute.store import Store
from fedstep.execute.task import Task
from fedstep.local.objective import Objective
from fedstep.local.oracles import Autograd, Oracle
from fedstep.local.trace import Trace
from fedstep.models.paper import plane
from fedstep.server.rules import ServerRule, ServerStep
from fedstep.steps.conditions import Armijo
from fedstep.steps.resets import Grow, Restart
from fedstep.steps.search import LineSearch

LOCAL_STEPS = 10
RATES = (0.01, 0.03, 0.1, 0.2)


@dataclass(frozen=True)
class Walk:
    """What a method did: the server's points (the first is the start), F at each, eta_g and the clients' steps a round."""

    name: str
    points: list[tuple[float, float]]
    values: list[float]
    eta_g: list[float]
    sizes: list[list[list[float]]]  # round, client, local step
    trials: list[list[list[int]]]


def federation() -> Federation:
    """One sample a client: a = (1, 1) or (1, 2), b = 3."""
    return load("plane", None).federation


def literal() -> dict[str, Algorithm]:
    """The algorithms as printed: each round starts at max_step = 1, the first trial is the start itself."""
    search = {"c": 0.1, "max_step": 1.0, "shrink": 0.9, "reset": Restart()}
    return {
        "FedAvg": zoo.fedavg(0.01),
        "FedExP": zoo.fedexp(0.01, eps=0.0),
        "FedSLS": zoo.fedsls(**search),  # type: ignore[arg-type]
        "FedExpSLS": zoo.fedexpsls(**search, eps=0.0),  # type: ignore[arg-type]
    }


def authors() -> dict[str, tuple[Algorithm, Algorithm]]:
    """The four scripts behind the printed figure, one algorithm a client.

    They shrink before the first trial, which for a growth by 4 is a growth by 4 * shrink; they start the clients at 0.9 and
    0.1; in FedExP all local steps use the gradient of the round's start; and squared norms are squares of rounded norms.
    """

    def search(c: float, shrink: float, start: float) -> LineSearch:
        grow = Grow(4 * shrink, per=1)
        return LineSearch(Armijo(c), grow, max_step=inf, shrink=shrink, start=start, slack=0.0)

    def pair(c: float, shrink: float) -> tuple[Algorithm, Algorithm]:
        one, two = (
            replace(plain, local=replace(plain.local, step=search(c, shrink, start)))
            for start in (0.9, 0.1)
        )
        return one, two

    def extrapolated(alg: Algorithm) -> Algorithm:
        return replace(alg, server=RoundedExtrapolate(), correction=RoundedNorm())

    plain = zoo.fedavg(0.01)
    stale = extrapolated(replace(plain, local=replace(plain.local, oracle=AtAnchor())))
    one, two = pair(0.1, 0.1)
    return {
        "FedAvg": (plain, plain),
        "FedExP": (stale, stale),
        "FedSLS": pair(0.01, 0.2),
        "FedExpSLS": (extrapolated(one), extrapolated(two)),
    }


def baselines() -> dict[str, Algorithm]:
    """The honest panel: FedAvg and FedExP at several learning rates."""
    avg = {f"FedAvg, step {rate:g}": zoo.fedavg(rate) for rate in RATES}
    return avg | {f"FedExP, step {rate:g}": zoo.fedexp(rate, eps=0.0) for rate in RATES}


def walk(name: str, clients: Algorithm | tuple[Algorithm, Algorithm], rounds: int = 50) -> Walk:
    """Run a method, or one algorithm a client, on the toy problem in float64."""
    pair = clients if isinstance(clients, tuple) else (clients, clients)
    model, fed = plane(), federation()
    tasks = [Task(alg, model, fed, Plan(1, LOCAL_STEPS, order=InOrder())) for alg in pair]
    server, store, result = (
        pair[0].init(model.init(), rounds),
        Store(),
        Walk(name, [], [], [], [], []),
    )
    _note(result, server.x, None, [])
    for _ in range(rounds):
        sent = pair[0].broadcast(server)
        updates = [next(Sequential()(task, sent, [i], store)) for i, task in enumerate(tasks)]
        server = pair[0].absorb(server, reduce(add, (u.aggregate for u in updates)), 2)
        _note(result, server.x, float(server.eta_g), updates)
    return result


def value(x: Vec) -> float:
    """F = (F1 + F2) / 2."""
    a, b = federation().fields
    return float(((a @ x - b) ** 2).mean())


def _note(result: Walk, x: Vec, eta_g: float | None, updates: Sequence[Update]) -> None:
    result.points.append((float(x[0]), float(x[1])))
    result.values.append(value(x))
    if eta_g is not None:
        result.eta_g.append(eta_g)
        result.sizes.append([u.trace.sizes.tolist() for u in updates])
        result.trials.append([u.trace.trials.tolist() for u in updates])


@dataclass(frozen=True)
class AtAnchor(Oracle):
    """The gradient at the round's start for every local step: a slip of the authors' FedExP script, kept for the figure."""

    forwards: ClassVar[int] = 1
    backwards: ClassVar[int] = 1

    def __call__(self, phi: Objective, x: Vec) -> tuple[Scalar, Vec]:
        return Autograd()(phi, phi.ctx.anchor.expand_as(x))


@dataclass(frozen=True)
class RoundedNorm(Correction):
    """Clients send |delta|^2 as the square of the rounded norm."""

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        delta = x - ctx.anchor
        return Finished(delta, message={"square": norm_sq(delta).sqrt() ** 2})


@dataclass(frozen=True)
class RoundedExtrapolate(ServerRule):
    """Extrapolation without eps on rounded norms.

    The difference to `Extrapolate` is in the last bit, but on this problem eta_g multiplies it by ten in every few rounds.
    """

    def update(self, x: Vec, d: Vec, agg: Aggregate, state: State) -> ServerStep:
        ratio = agg.mean(agg.message["square"]) / (2 * norm_sq(d).sqrt() ** 2)
        eta_g = ratio.clamp(min=1.0)
        return ServerStep(x + eta_g * d, eta_g)
