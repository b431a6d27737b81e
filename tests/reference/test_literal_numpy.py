"""The papers' algorithm boxes, written out in numpy, against the library.

Clients of unequal size (one smaller than a batch) take part by a fixed schedule; batches of 4 are taken in order, the last of
a pass is short, and passes repeat until the K local steps are done. D_i = w_t - w_{t,K}^i, as the papers write it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedstep import zoo
from fedstep.algorithm import Algorithm, Broadcast, Update
from fedstep.core.types import Batch
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Executor, Sequential, Store, Task
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.server.sampling import Given
from fedstep.server.weighting import BySamples
from fedstep.steps.resets import Grow, Keep, Restart

Array = np.ndarray[Any, np.dtype[np.float64]]
SIZES, DIM, BATCH, K = (10, 7, 3, 13, 6), 4, 4, 6
SCHEDULE = ((0, 2, 3), (1, 4), (0, 1, 2, 3, 4), (2, 3), (0, 4, 1), (3, 1, 2))


# The problem


@dataclass(frozen=True)
class Problem:
    """Clients' samples, and loss and gradient of a batch."""

    clients: tuple[tuple[Array, Array], ...]
    loss: Callable[[Array, Array, Array], float]
    gradient: Callable[[Array, Array, Array], Array]
    torch_loss: Callable[[Tensor, Batch], Tensor]

    def batches(self, i: int) -> Iterator[tuple[Array, Array]]:
        """Batches of 4 in the order of the data, pass after pass."""
        inputs, targets = self.clients[i]
        while True:
            for first in range(0, len(targets), BATCH):
                yield inputs[first : first + BATCH], targets[first : first + BATCH]

    def local_batches(self, i: int) -> list[tuple[Array, Array]]:
        batches = self.batches(i)
        return [next(batches) for _ in range(K)]


def sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


def problem(kind: str) -> Problem:
    rng = np.random.default_rng(11)
    clients = []
    for n in SIZES:
        inputs = rng.standard_normal((n, DIM)) * rng.uniform(0.5, 2.0)
        scores = inputs @ (1 + 0.5 * rng.standard_normal(DIM)) + 0.3 * rng.standard_normal(n)
        clients.append((inputs, np.sign(scores) if kind == "logistic" else scores))
    if kind == "logistic":
        return Problem(
            tuple(clients),
            lambda w, a, y: float(np.mean(np.log1p(np.exp(-y * (a @ w))))),
            lambda w, a, y: -(a.T @ (y * sigmoid(-y * (a @ w)))) / len(y),
            lambda x, batch: torch.log1p(torch.exp(-batch.targets * (batch.inputs @ x))),
        )
    return Problem(
        tuple(clients),
        lambda w, a, y: float(np.mean((a @ w - y) ** 2)) / 2,
        lambda w, a, y: a.T @ (a @ w - y) / len(y),
        lambda x, batch: (batch.inputs @ x - batch.targets) ** 2 / 2,
    )


# What a run leaves behind, from the boxes and from the library alike


@dataclass
class History:
    """Per round: the iterate, the point to evaluate, the server's step; per round and client: steps and trials."""

    w: list[Array] = field(default_factory=list)
    evaluated: list[Array] = field(default_factory=list)
    eta_g: list[float] = field(default_factory=list)
    steps: list[list[list[float]]] = field(default_factory=list)
    trials: list[list[list[int]]] = field(default_factory=list)


# Client boxes


def sgd_client(
    p: Problem, w_t: Array, i: int, eta_l: float, mu: float = 0.0
) -> tuple[Array, list[float], list[int]]:
    """K steps of SGD; with mu > 0 on f + mu/2 |v - w_t|^2 (FedProx)."""
    w = w_t.copy()
    for a, y in p.local_batches(i):
        w = w - eta_l * (p.gradient(w, a, y) + mu * (w - w_t))
    return w, [eta_l] * K, [0] * K


def armijo_client(
    p: Problem, w_t: Array, i: int, c: float, beta: float, eta_max: float, opt: str, delta: float
) -> tuple[Array, list[float], list[int]]:
    """SGD-Armijo with RESET: eta_max in the first step of a round; then keep, restart at eta_max, or eta * delta^(b/n)."""
    w, eta, n = w_t.copy(), eta_max, len(p.clients[i][1])
    steps, trials = list[float](), list[int]()
    for k, (a, y) in enumerate(p.local_batches(i), start=1):
        f, g = p.loss(w, a, y), p.gradient(w, a, y)
        if k == 1 or opt == "restart":
            eta = eta_max
        elif opt == "grow":
            eta = min(eta * delta ** (len(y) / n), eta_max)
        tried = 1
        while p.loss(w - eta * g, a, y) > f - c * eta * (g @ g):
            eta, tried = beta * eta, tried + 1
        w = w - eta * g
        steps.append(eta)
        trials.append(tried)
    return w, steps, trials


# Server boxes


Client = Callable[[Array, int], tuple[Array, list[float], list[int]]]
ServerStep = Callable[[Array, list[Array], list[float]], tuple[Array, float]]


def federated(
    client: Client, server: ServerStep, weights: Sequence[float], last_two: bool = False
) -> History:
    """The loop that all boxes share: send w_t to S, let the clients work, step with their D_i and weights p_i."""
    h, w = History(), np.zeros(DIM)
    for t, S in enumerate(SCHEDULE):
        results = [client(w, i) for i in S]
        total = sum(weights[i] for i in S)
        new, eta_g = server(w, [w - end for end, _, _ in results], [weights[i] / total for i in S])
        h.evaluated.append((w + new) / 2 if last_two and t > 0 else new)
        h.w.append(new)
        h.eta_g.append(eta_g)
        h.steps.append([steps for _, steps, _ in results])
        h.trials.append([trials for _, _, trials in results])
        w = new
    return h


def weighted(values: list[Any], p: list[float]) -> Any:
    return sum(p_i * value for p_i, value in zip(p, values, strict=True))


def averaging(eta_g: float) -> ServerStep:
    return lambda w, D, p: (w - eta_g * weighted(D, p), eta_g)


def averaging_with_momentum(eta_g: float, beta: float) -> ServerStep:
    m = np.zeros(DIM)

    def step(w: Array, D: list[Array], p: list[float]) -> tuple[Array, float]:
        nonlocal m
        m = beta * m + weighted(D, p)
        return w - eta_g * m, eta_g

    return step


def extrapolation(eps: float, eta_gmax: float = inf) -> ServerStep:
    def step(w: Array, D: list[Array], p: list[float]) -> tuple[Array, float]:
        mean = weighted(D, p)
        eta_g = weighted([D_i @ D_i for D_i in D], p) / (2 * (mean @ mean + eps))
        eta_g = min(max(1.0, eta_g), eta_gmax)
        return w - eta_g * mean, eta_g

    return step


def adaptive(name: str, eta: float, beta1: float, beta2: float, tau: float) -> ServerStep:
    m, v = np.zeros(DIM), np.full(DIM, tau**2)

    def step(w: Array, D: list[Array], p: list[float]) -> tuple[Array, float]:
        nonlocal m, v
        change = -weighted(D, p)
        m = beta1 * m + (1 - beta1) * change
        if name == "adagrad":
            v = v + change**2
        elif name == "yogi":
            v = v - (1 - beta2) * change**2 * np.sign(v - change**2)
        else:
            v = beta2 * v + (1 - beta2) * change**2
        return w + eta * m / (np.sqrt(v) + tau), eta

    return step


# The library


@dataclass
class Watched(Executor):
    """An executor whose updates are kept."""

    executor: Executor
    updates: list[list[Update]] = field(default_factory=list)

    def __call__(
        self, task: Task, sent: Broadcast, cohort: Sequence[int], store: Store, probe: bool = False
    ) -> Iterator[Update]:
        self.updates.append(list(self.executor(task, sent, cohort, store, probe)))
        return iter(self.updates[-1])


def library(p: Problem, algorithm: Algorithm, executor: Executor) -> History:
    model = FunctionModel(p.torch_loss, torch.zeros(DIM, dtype=torch.float64))
    data = Federation.of([(torch.tensor(a), torch.tensor(y)) for a, y in p.clients])
    task, watched, h = (
        Task(algorithm, model, data, Plan(BATCH, K, order=InOrder())),
        Watched(executor),
        History(),
    )
    simulation = Simulation(task, 3, Given(SCHEDULE), watched)
    for server, report in simulation.run(simulation.begin(len(SCHEDULE)), Store(), len(SCHEDULE)):
        traces = [u.trace for u in watched.updates[-1]]
        assert report.failed == 0
        h.w.append(server.x.numpy())
        h.evaluated.append(server.readout.numpy())
        h.eta_g.append(report.eta_g)
        h.steps.append([row for t in traces for row in t.sizes.reshape(-1, K).tolist()])
        h.trials.append([row for t in traces for row in t.trials.reshape(-1, K).tolist()])
    return h


def assert_same(found: History, expected: History) -> None:
    assert found.trials == expected.trials
    for name in ("w", "evaluated", "eta_g"):
        got, want = np.array(getattr(found, name)), np.array(getattr(expected, name))
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=name)
    for got_round, want_round in zip(found.steps, expected.steps, strict=True):
        np.testing.assert_allclose(got_round, want_round, rtol=1e-12)


EXECUTORS = pytest.mark.parametrize(
    "executor", [Sequential(), Cohort(3)], ids=["sequential", "cohort"]
)
KINDS = pytest.mark.parametrize("kind", ["squares", "logistic"])
WEIGHTS = pytest.mark.parametrize("by_samples", [False, True], ids=["equal", "by_samples"])
EQUAL = (1.0,) * len(SIZES)
ETA_L = 0.05

SERVERS: dict[str, tuple[Algorithm, Callable[[], ServerStep], bool]] = {
    "fedavg": (zoo.fedavg(ETA_L, 0.7), lambda: averaging(0.7), False),
    "fedavgm": (zoo.fedavgm(ETA_L, 0.6, 0.8), lambda: averaging_with_momentum(0.6, 0.8), False),
    "fedexp": (zoo.fedexp(ETA_L, 1e-3), lambda: extrapolation(1e-3), True),
    "fedexp_clamped": (zoo.fedexp(ETA_L, 0.0, 1.2), lambda: extrapolation(0.0, 1.2), True),
    "fedadagrad": (
        zoo.fedadagrad(ETA_L, 0.3, 0.0, 0.01),
        lambda: adaptive("adagrad", 0.3, 0.0, 0.0, 0.01),
        False,
    ),
    "fedadam": (
        zoo.fedadam(ETA_L, 0.1, 0.9, 0.99, 0.01),
        lambda: adaptive("adam", 0.1, 0.9, 0.99, 0.01),
        False,
    ),
    "fedyogi": (
        zoo.fedyogi(ETA_L, 0.1, 0.9, 0.99, 0.01),
        lambda: adaptive("yogi", 0.1, 0.9, 0.99, 0.01),
        False,
    ),
}


@EXECUTORS
@KINDS
@WEIGHTS
@pytest.mark.parametrize("name", sorted(SERVERS))
def test_a_method_with_sgd_clients_equals_its_box(
    name: str, by_samples: bool, kind: str, executor: Executor
) -> None:
    algorithm, server, last_two = SERVERS[name]
    algorithm = replace(algorithm, weighting=BySamples()) if by_samples else algorithm
    p = problem(kind)
    expected = federated(
        lambda w, i: sgd_client(p, w, i, ETA_L),
        server(),
        [float(n) for n in SIZES] if by_samples else EQUAL,
        last_two,
    )
    if name == "fedexp":
        assert max(expected.eta_g) > 1.05, "extrapolation was never active"
    if name == "fedexp_clamped":
        assert 1.2 in expected.eta_g, "the clamp was never active"
    assert_same(library(p, algorithm, executor), expected)


@EXECUTORS
@KINDS
@pytest.mark.parametrize("mu", [0.0, 0.5])
def test_fedprox_equals_its_box(mu: float, kind: str, executor: Executor) -> None:
    p = problem(kind)
    expected = federated(lambda w, i: sgd_client(p, w, i, ETA_L, mu), averaging(1.0), EQUAL)
    assert_same(library(p, zoo.fedprox(ETA_L, mu), executor), expected)


@EXECUTORS
@KINDS
def test_fedprox_with_extrapolation_equals_its_box(kind: str, executor: Executor) -> None:
    p = problem(kind)
    expected = federated(
        lambda w, i: sgd_client(p, w, i, ETA_L, 0.5), extrapolation(1e-3), EQUAL, last_two=True
    )
    assert_same(library(p, zoo.fedprox_exp(ETA_L, 0.5, 1e-3), executor), expected)


RESETS = {"keep": Keep(), "restart": Restart(), "grow": Grow(2.0)}


@EXECUTORS
@KINDS
@pytest.mark.parametrize("c", [0.1, 0.6])
@pytest.mark.parametrize("opt", sorted(RESETS))
def test_fedsls_equals_its_box(opt: str, c: float, kind: str, executor: Executor) -> None:
    p = problem(kind)
    expected = federated(
        lambda w, i: armijo_client(p, w, i, c, 0.9, 10.0, opt, 2.0), averaging(0.9), EQUAL
    )
    assert max(t for clients in expected.trials for trials in clients for t in trials) > 3, (
        "the search had nothing to do"
    )
    assert_same(library(p, zoo.fedsls(c, 10.0, 0.9, RESETS[opt], 0.9), executor), expected)


@EXECUTORS
@KINDS
@WEIGHTS
@pytest.mark.parametrize("opt", sorted(RESETS))
def test_fedexpsls_equals_its_box(
    opt: str, by_samples: bool, kind: str, executor: Executor
) -> None:
    p = problem(kind)
    weights = [float(n) for n in SIZES] if by_samples else EQUAL
    expected = federated(
        lambda w, i: armijo_client(p, w, i, 0.3, 0.8, 4.0, opt, 2.0),
        extrapolation(1e-3, 3.0),
        weights,
    )
    algorithm = zoo.fedexpsls(0.3, 4.0, 0.8, RESETS[opt], 1e-3, 3.0)
    algorithm = replace(algorithm, weighting=BySamples()) if by_samples else algorithm
    assert max(expected.eta_g) > 1, "extrapolation was never active"
    assert_same(library(p, algorithm, executor), expected)


def test_the_batches_of_the_box_are_the_plans() -> None:
    p, plan = problem("squares"), Plan(BATCH, K, order=InOrder())
    assert [len(y) for _, y in p.local_batches(0)] == [4, 4, 2, 4, 4, 2]
    assert [len(y) for _, y in p.local_batches(2)] == [3] * K
    for i, (inputs, _) in enumerate(p.clients):
        planned = [inputs[index.numpy()] for index in plan(len(inputs), 0, 0, i)]
        assert all(
            np.array_equal(a, b) for a, (b, _) in zip(planned, p.local_batches(i), strict=True)
        )
