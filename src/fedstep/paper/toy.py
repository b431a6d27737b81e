"""Figure 1 of the paper: two clients in the plane.

F1 = (w1 + w2 - 3)^2 and F2 = (w1 + 2 w2 - 3)^2, minimum at (3, 0).
"""

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
RATES = (0.01, 0.03, 0.1, 0.2)  # of the baselines; the first is the one the paper draws


@dataclass(frozen=True)
class Walk:
    """What a method did, round by round."""

    name: str
    points: list[tuple[float, float]]  # of the server; the first is the start
    values: list[float]  # F at each point
    eta_g: list[float]  # one a round: the start has none
    sizes: list[list[list[float]]]  # accepted steps by round, client, local step
    trials: list[list[list[int]]]  # likewise


def federation() -> Federation:
    """One sample a client: a = (1, 1) or (1, 2), b = 3."""
    return load("plane", None).federation


def literal() -> dict[str, Algorithm]:
    """The algorithms as printed.

    Each round starts at max_step, the first trial is the start itself. The paper prints no
    constants: these are its program's.
    """
    search = {
        "c": 0.1,
        "max_step": 1.0,
        "shrink": 0.9,
        "reset": Restart(),
    }
    return {
        "FedAvg": zoo.fedavg(0.01),
        # Without eps, as the figure has it: near the minimum it would hold eta_g back.
        "FedExP": zoo.fedexp(0.01, eps=0.0),
        "FedSLS": zoo.fedsls(**search),  # type: ignore[arg-type]
        "FedExpSLS": zoo.fedexpsls(**search, eps=0.0),  # type: ignore[arg-type]
    }


def authors() -> dict[str, tuple[Algorithm, Algorithm]]:
    """The four scripts behind the printed figure, one algorithm a client.

    They shrink before the first trial, which for a growth by 4 is a growth by 4 * shrink; they
    start the clients at 0.9 and 0.1; in FedExP all local steps use the gradient of the round's
    start; and squared norms are squares of rounded norms.
    """
    plain = zoo.fedavg(0.01)
    at_anchor = replace(plain.local, oracle=AtAnchor())
    stale = _extrapolated(replace(plain, local=at_anchor))
    # Not the constants of FedSLS below: the two scripts do not agree.
    one, two = _searching_pair(c=0.1, shrink=0.1)
    return {
        "FedAvg": (plain, plain),
        "FedExP": (stale, stale),
        "FedSLS": _searching_pair(c=0.01, shrink=0.2),
        "FedExpSLS": (_extrapolated(one), _extrapolated(two)),
    }


def _searching_pair(c: float, shrink: float) -> tuple[Algorithm, Algorithm]:
    """The clients of the authors' scripts, which begin with other steps than each other."""
    one = _searching_client(c, shrink, start=0.9)
    two = _searching_client(c, shrink, start=0.1)
    return one, two


def _searching_client(c: float, shrink: float, start: float) -> Algorithm:
    search = LineSearch(
        Armijo(c),
        Grow(4 * shrink, per=1),
        # The scripts know neither an upper end of the steps nor room for rounding.
        max_step=inf,
        shrink=shrink,
        start=start,
        slack=0.0,
    )
    plain = zoo.fedavg(0.01)
    return replace(plain, local=replace(plain.local, step=search))


def _extrapolated(alg: Algorithm) -> Algorithm:
    return replace(
        alg,
        server=RoundedExtrapolate(),
        correction=RoundedNorm(),
    )


def baselines() -> dict[str, Algorithm]:
    """The honest panel: FedAvg and FedExP at several learning rates."""
    # In the order of the rates for each method: the figure gives a rate its dashes by its place.
    methods: dict[str, Algorithm] = {}
    for rate in RATES:
        methods[f"FedAvg, step {rate:g}"] = zoo.fedavg(rate)
    for rate in RATES:
        methods[f"FedExP, step {rate:g}"] = zoo.fedexp(rate, eps=0.0)
    return methods


def walk(
    name: str,
    clients: Algorithm | tuple[Algorithm, Algorithm],
    rounds: int = 50,
) -> Walk:
    """Run a method, or one algorithm a client, on the toy problem in float64."""
    if isinstance(clients, Algorithm):
        pair = (clients, clients)
    else:
        pair = clients
    # The server is the same in both: what differs are the clients' local steps.
    method = pair[0]
    model = plane()
    fed = federation()
    plan = Plan(1, LOCAL_STEPS, order=InOrder())
    tasks = [Task(alg, model, fed, plan) for alg in pair]
    server = method.init(model.init(), rounds)
    store = Store()
    result = Walk(name, [], [], [], [], [])
    _note_point(result, server.x)
    for _ in range(rounds):
        sent = method.broadcast(server)
        updates = []
        for client, task in enumerate(tasks):
            # A call for each client: an executor takes one task, and these have two.
            answers = Sequential()(task, sent, [client], store)
            updates.append(next(answers))
        total = reduce(add, (update.aggregate for update in updates))
        server = method.absorb(server, total, 2)
        _note_point(result, server.x)
        _note_steps(result, float(server.eta_g), updates)
    return result


def value(x: Vec) -> float:
    """F = (F1 + F2) / 2."""
    a, b = federation().fields
    return float(((a @ x - b) ** 2).mean())


def _note_point(result: Walk, x: Vec) -> None:
    point = (float(x[0]), float(x[1]))
    result.points.append(point)
    result.values.append(value(x))


def _note_steps(result: Walk, eta_g: float, updates: Sequence[Update]) -> None:
    sizes = [update.trace.sizes.tolist() for update in updates]
    trials = [update.trace.trials.tolist() for update in updates]
    result.eta_g.append(eta_g)
    result.sizes.append(sizes)
    result.trials.append(trials)


@dataclass(frozen=True)
class AtAnchor(Oracle):
    """The gradient at the round's start for every local step.

    A slip of the authors' FedExP script, kept for the figure.
    """

    forwards: ClassVar[int] = 1
    backwards: ClassVar[int] = 1

    def __call__(self, phi: Objective, x: Vec) -> tuple[Scalar, Vec]:
        anchor = phi.ctx.anchor.expand_as(x)
        return Autograd()(phi, anchor)


@dataclass(frozen=True)
class RoundedNorm(Correction):
    """Clients send |delta|^2 as the square of the rounded norm."""

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        delta = x - ctx.anchor
        # The root and the square do not cancel: the scripts' last bits come from here.
        norm = norm_sq(delta).sqrt()
        return Finished(delta, message={"square": norm**2})


@dataclass(frozen=True)
class RoundedExtrapolate(ServerRule):
    """Extrapolation without eps on rounded norms.

    The difference to `Extrapolate` is in the last bit, but on this problem eta_g multiplies it by
    ten in every few rounds.
    """

    def update(self, x: Vec, d: Vec, agg: Aggregate, state: State) -> ServerStep:
        mean_square = agg.mean(agg.message["square"])
        norm = norm_sq(d).sqrt()
        ratio = mean_square / (2 * norm**2)
        eta_g = ratio.clamp(min=1.0)
        return ServerStep(x + eta_g * d, eta_g)
