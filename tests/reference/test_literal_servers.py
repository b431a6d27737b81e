"""Server steps, compressed deltas, proximal points and Newton steps: the papers' boxes in numpy against the library.

The set-up is that of test_literal_numpy.py. D_i = w_{t,K}^i - w_t here, as the servers of these papers add it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
import torch
from test_literal_numpy import (
    BATCH,
    DIM,
    ETA_L,
    EXECUTORS,
    KINDS,
    SCHEDULE,
    Array,
    K,
    Problem,
    problem,
    sgd_client,
    sigmoid,
)

from fedstep import zoo
from fedstep.algorithm import Algorithm
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Executor, Store, Task
from fedstep.local.solver import LocalSolver
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.server.codecs import ScaledSign, TopK
from fedstep.server.sampling import Given
from fedstep.steps.fixed import Constant

STEPS = Plan(BATCH, K, order=InOrder())
EPOCH = Plan(BATCH, None, 1, InOrder())
ALL = (tuple(range(5)),) * 6
Step = Callable[[Array, list[Array]], tuple[Array, float]]


def library(
    p: Problem,
    algorithm: Algorithm,
    executor: Executor,
    plan: Plan = STEPS,
    schedule: tuple[tuple[int, ...], ...] = SCHEDULE,
) -> list[tuple[Array, Array, float]]:
    """Iterate, point to evaluate and server step of every round."""
    model = FunctionModel(p.torch_loss, torch.zeros(DIM, dtype=torch.float64))
    data = Federation.of([(torch.tensor(a), torch.tensor(y)) for a, y in p.clients])
    sim = Simulation(Task(algorithm, model, data, plan), 3, Given(schedule), executor)
    rounds = sim.run(sim.begin(len(schedule)), Store(), len(schedule))
    return [(s.x.numpy(), s.readout.numpy(), report.eta_g) for s, report in rounds]


def assert_same(
    found: list[tuple[Array, Array, float]],
    expected: Iterator[tuple[Array, float]],
    close: float = 1e-12,
) -> None:
    wanted = list(expected)
    for (w, _, eta_g), (want, want_eta) in zip(found, wanted, strict=True):
        np.testing.assert_allclose(w, want, rtol=close, atol=close)
        assert eta_g == pytest.approx(want_eta, rel=close)


def sgd_rounds(p: Problem, step: Step) -> Iterator[tuple[Array, float]]:
    w = np.zeros(DIM)
    for S in SCHEDULE:
        w, eta_g = step(w, [sgd_client(p, w, i, ETA_L)[0] - w for i in S])
        yield w, eta_g


# Servers


def amsgrad(eta: float, beta1: float, beta2: float, eps: float, option: int) -> Step:
    m, v, v_hat = np.zeros(DIM), np.zeros(DIM), np.zeros(DIM)

    def step(w: Array, D: list[Array]) -> tuple[Array, float]:
        nonlocal m, v, v_hat
        mean = np.mean(D, 0)
        m = beta1 * m + (1 - beta1) * mean
        v = beta2 * v + (1 - beta2) * mean**2
        if option == 1:
            v_hat = np.maximum(np.maximum(v_hat, v), eps)
            return w + eta * m / np.sqrt(v_hat), eta
        v_hat = np.maximum(v_hat, v)
        return w + eta * m / (np.sqrt(v_hat) + eps), eta

    return step


@EXECUTORS
@KINDS
@pytest.mark.parametrize("option", [1, 2])
def test_fedams_equals_its_box(option: int, kind: str, executor: Executor) -> None:
    p = problem(kind)
    algorithm = zoo.fedams(ETA_L, 0.2, 0.7, 0.8, 1e-3, floor=option == 1)
    assert_same(
        library(p, algorithm, executor), sgd_rounds(p, amsgrad(0.2, 0.7, 0.8, 1e-3, option))
    )


def hyper_g() -> Step:
    agg, last = 0.0, None

    def step(w: Array, D: list[Array]) -> tuple[Array, float]:
        nonlocal agg, last
        mean = np.mean(D, 0)
        if last is not None:
            agg = min(max(agg + last @ mean, -0.8), 4.0)
        last = mean
        return w + (1 + agg) * mean, 1 + agg

    return step


def hyper_gm() -> Step:
    agg, last = 0.0, None

    def step(w: Array, D: list[Array]) -> tuple[Array, float]:
        nonlocal agg, last
        mean = np.mean(D, 0)
        if last is None:
            last = mean
            return w + mean, 1.0
        agg = min(max(agg + last @ mean, -0.2), 4.0)
        new = w + mean + agg * mean + 0.9 * agg * last
        last = mean + 0.9 * last
        return new, 1 + agg

    return step


@EXECUTORS
@KINDS
def test_fedhyper_g_equals_the_program(kind: str, executor: Executor) -> None:
    p = problem(kind)
    assert_same(library(p, zoo.fedhyper_g(ETA_L), executor), sgd_rounds(p, hyper_g()))


@EXECUTORS
@KINDS
def test_fedhyper_gm_equals_the_program(kind: str, executor: Executor) -> None:
    p = problem(kind)
    assert_same(library(p, zoo.fedhyper_gm(ETA_L), executor), sgd_rounds(p, hyper_gm()))


@EXECUTORS
def test_fedhyper_sl_equals_the_program(executor: Executor) -> None:
    def rounds() -> Iterator[tuple[Array, float]]:
        w, agg, last, lr = np.zeros(DIM), 0.0, None, 0.01
        for t, S in enumerate(SCHEDULE):
            mean = np.mean([sgd_client(p, w, i, lr)[0] - w for i in S], 0)
            w = w + mean
            if t > 0:
                agg += last @ mean
                lr = min(0.1, max(0.001, 0.01 * (agg + 1)))
            last = mean
            seen.append(lr)
            yield w, 1.0

    p, seen = problem("squares"), list[float]()
    assert_same(library(p, zoo.fedhyper_sl(0.01), executor), rounds())
    assert max(seen) > 0.0105, "the step never grew"


@EXECUTORS
@KINDS
def test_feddog_equals_its_box_and_ships_the_polynomial_mean(kind: str, executor: Executor) -> None:
    p = problem(kind)
    r_eps, far, squares = 1e-2, 1e-2, 0.0  # r_eps (1 + |w_0|), w_0 = 0

    def step(w: Array, D: list[Array]) -> tuple[Array, float]:
        nonlocal far, squares
        mean = np.mean(D, 0)
        far, squares = max(far, float(np.linalg.norm(w))), squares + float(mean @ mean)
        return w + far / sqrt(squares) * mean, far / sqrt(squares)

    found = library(p, zoo.feddog_server(ETA_L, start=r_eps), executor)
    expected = list(sgd_rounds(p, step))
    assert_same(found, iter(expected))
    weights = np.ones(1)  # of x_1 .. x_t; the recursion w_t = 9 / (8 + t) unrolled
    for t in range(2, len(expected) + 1):
        weights = np.append(weights * (1 - 9 / (8 + t)), 9 / (8 + t))
    np.testing.assert_allclose(
        found[-1][1], weights @ np.array([w for w, _ in expected]), rtol=1e-12
    )


@EXECUTORS
@KINDS
def test_nastya_equals_its_box(kind: str, executor: Executor) -> None:
    p, gamma, eta = problem(kind), 0.02, 0.4

    def rounds() -> Iterator[tuple[Array, float]]:
        x = np.zeros(DIM)
        for S in SCHEDULE:
            g = []
            for i in S:
                a, y = p.clients[i]
                v, n = x.copy(), 0
                for first in range(0, len(y), BATCH):
                    v, n = (
                        v
                        - gamma * p.gradient(v, a[first : first + BATCH], y[first : first + BATCH]),
                        n + 1,
                    )
                g.append((x - v) / (gamma * n))
            x = x - eta * np.mean(g, 0)
            yield x, eta

    assert_same(library(p, zoo.nastya(gamma, eta), executor, EPOCH), rounds())


# Compressed deltas


def scaled_sign(x: Array) -> Array:
    return np.abs(x).sum() / len(x) * np.sign(x)


def top_two(x: Array) -> Array:
    kept = np.zeros_like(x)
    places = np.argsort(-np.abs(x))[:2]
    kept[places] = x[places]
    return kept


@EXECUTORS
@KINDS
@pytest.mark.parametrize(
    ("codec", "compress"), [(ScaledSign(), scaled_sign), (TopK(0.5), top_two)], ids=["sign", "top"]
)
def test_fedcams_equals_its_box(
    codec: ScaledSign | TopK, compress: Callable[[Array], Array], kind: str, executor: Executor
) -> None:
    p, e = problem(kind), np.zeros((5, DIM))
    server = amsgrad(0.2, 0.9, 0.99, 1e-4, 1)

    def rounds() -> Iterator[tuple[Array, float]]:
        w = np.zeros(DIM)
        for S in SCHEDULE:
            sent = []
            for i in S:
                wanted = sgd_client(p, w, i, ETA_L)[0] - w + e[i]
                sent.append(compress(wanted))
                e[i] = wanted - sent[-1]
            w, eta = server(w, sent)
            yield w, eta

    algorithm = zoo.fedcams(ETA_L, 0.2, 0.9, 0.99, 1e-4, compressor=codec)
    assert_same(library(p, algorithm, executor), rounds())


# Curvature


def full(p: Problem, i: int, w: Array, kind: str) -> tuple[Array, Array]:
    """Gradient and Hessian of client i's loss over all its samples."""
    a, y = p.clients[i]
    s = sigmoid(a @ w) * sigmoid(-(a @ w)) if kind == "logistic" else np.ones(len(y))
    return p.gradient(w, a, y), a.T @ (s[:, None] * a) / len(y)


def proximal_point(p: Problem, i: int, w: Array, gamma: float, kind: str) -> Array:
    """argmin_z f_i(z) + |z - w|^2 / (2 gamma) by 50 full Newton steps."""
    z = w.copy()
    for _ in range(50):
        g, h = full(p, i, z, kind)
        z = z - np.linalg.solve(h + np.eye(DIM) / gamma, g + (z - w) / gamma)
    return z


@EXECUTORS
@KINDS
@pytest.mark.parametrize("rule", ["constant", "grads", "stops"])
def test_fedexprox_equals_its_box(rule: str, kind: str, executor: Executor) -> None:
    p, gamma = problem(kind), 2.0

    def rounds() -> Iterator[tuple[Array, float]]:
        w = np.zeros(DIM)
        for S in SCHEDULE:
            points = [proximal_point(p, i, w, gamma, kind) for i in S]
            D = [point - w for point in points]
            mean = np.mean(D, 0)
            envelopes = [
                p.loss(z, *p.clients[i]) + d @ d / (2 * gamma)
                for i, z, d in zip(S, points, D, strict=True)
            ]
            alpha = {
                "constant": 1.3,
                "grads": np.mean([d @ d for d in D]) / (mean @ mean),
                "stops": gamma * (np.mean(envelopes) - 0.01) / (mean @ mean),
            }[rule]
            w = w + alpha * mean
            yield w, alpha

    algorithm = {
        "constant": zoo.fedexprox(gamma, 1.3, 1e-13),
        "grads": zoo.fedexprox_grads(gamma, tolerance=1e-13),
        "stops": zoo.fedexprox_stops(gamma, bound=0.01, tolerance=1e-13),
    }[rule]
    # the proximal points are exact to 1e-13 only, and an extrapolation of them amplifies that
    assert_same(library(p, algorithm, executor, EPOCH), rounds(), close=1e-10)


@EXECUTORS
@KINDS
def test_fednew_equals_its_box(kind: str, executor: Executor) -> None:
    p, alpha, rho = problem(kind), 0.3, 0.2

    def rounds() -> Iterator[tuple[Array, float]]:
        w, y, duals = np.zeros(DIM), np.zeros(DIM), np.zeros((5, DIM))
        for S in ALL:
            own = []
            for i in S:
                g, h = full(p, i, w, kind)
                own.append(np.linalg.solve(h + (alpha + rho) * np.eye(DIM), g - duals[i] + rho * y))
            y = np.mean(own, 0)
            w = w - y
            for i in S:
                duals[i] += rho * (own[i] - y)
            yield w, 1.0

    assert_same(library(p, zoo.fednew(alpha, rho), executor, EPOCH, ALL), rounds())


@EXECUTORS
def test_fednew_with_clients_away_updates_their_duals_when_they_return(executor: Executor) -> None:
    p, alpha, rho = problem("logistic"), 0.3, 0.2

    def rounds() -> Iterator[tuple[Array, float]]:
        w, y, duals, own = np.zeros(DIM), np.zeros(DIM), np.zeros((5, DIM)), dict[int, Array]()
        for S in SCHEDULE:
            for i in S:
                if i in own:
                    duals[i] += rho * (own[i] - y)
                g, h = full(p, i, w, "logistic")
                own[i] = np.linalg.solve(h + (alpha + rho) * np.eye(DIM), g - duals[i] + rho * y)
            y = np.mean([own[i] for i in S], 0)
            w = w - y
            yield w, 1.0

    assert_same(library(p, zoo.fednew(alpha, rho), executor, EPOCH), rounds())


def test_newton_client_sees_all_samples_of_its_batches() -> None:
    """One gradient step on the joined batches is one on the full loss."""
    p = problem("logistic")
    newton = zoo.fednew(1.0, 0.0)
    far = replace(
        newton, local=replace(newton.local, terms=(replace(newton.local.terms[0], mu=1e9),))
    )
    algorithm = replace(
        far, server=replace(far.server, step=1e9)
    )  # H + 1e9 I is 1e9 I: a gradient step
    (w, _, _), *_ = library(p, algorithm, EXECUTORS.args[1][0], EPOCH, ALL)
    expected = -np.mean([p.gradient(np.zeros(DIM), *c) for c in p.clients], 0)
    np.testing.assert_allclose(w, expected, rtol=1e-7)
    assert isinstance(algorithm.local, LocalSolver)
    assert algorithm.local.step == Constant(1.0)
