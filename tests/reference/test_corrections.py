"""Drift corrections as the papers' boxes print them, written out in numpy, against the library.

The problem, its batches and the schedule of clients are those of test_literal_numpy.py; N = 5 clients in all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from test_literal_numpy import BATCH, DIM, EXECUTORS, KINDS, SCHEDULE, SIZES, K, problem

from fedstep import zoo
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Store, Task
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.server.sampling import Given, Sampling
from fedstep.server.weighting import BySamples

N, ETA, EPOCHS = len(SIZES), 0.05, 2
OTHERS = ((1, 4, 2), (0, 3), (4, 3, 2, 1, 0), (1, 3), (2, 4, 3), (0, 1, 4))


def full_gradient(p, i, w):
    return p.gradient(w, *p.clients[i])


def batches(p, i, unequal=False):
    """K batches, or those of two epochs: 6, 4, 2, 8 and 4 for the five clients."""
    steps = EPOCHS * -(-SIZES[i] // BATCH) if unequal else K
    endless = p.batches(i)
    return [next(endless) for _ in range(steps)]


def walk(p, algorithm, executor, plan=None, sampling=None):
    model = FunctionModel(p.torch_loss, torch.zeros(DIM, dtype=torch.float64))
    data = Federation.of([(torch.tensor(a), torch.tensor(y)) for a, y in p.clients])
    task = Task(algorithm, model, data, plan or Plan(BATCH, K, order=InOrder()))
    simulation = Simulation(task, 3, sampling or Given(SCHEDULE), executor)
    return [
        s.x.numpy()
        for s, _ in simulation.run(simulation.begin(len(SCHEDULE)), Store(), len(SCHEDULE))
    ]


def assert_same(found, expected):
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-12, atol=1e-12)


EPOCHWISE = Plan(BATCH, None, EPOCHS, InOrder())


def scaffold(p, option, eta_g):
    """Karimireddy et al., 2020, Algorithm 1."""
    x, c, c_i, path = np.zeros(DIM), np.zeros(DIM), np.zeros((N, DIM)), []
    for S in SCHEDULE:
        dy, dc = [], []
        for i in S:
            y = x.copy()
            for a, b in batches(p, i):
                y = y - ETA * (p.gradient(y, a, b) - c_i[i] + c)
            plus = full_gradient(p, i, x) if option == 1 else c_i[i] - c + (x - y) / (K * ETA)
            dy.append(y - x)
            dc.append(plus - c_i[i])
            c_i[i] = plus
        x = x + eta_g / len(S) * sum(dy)
        c = c + sum(dc) / N
        path.append(x)
    return path


@EXECUTORS
@KINDS
@pytest.mark.parametrize("option", [1, 2])
def test_scaffold_equals_its_box(option, kind, executor):
    p = problem(kind)
    assert_same(walk(p, zoo.scaffold(ETA, option, 0.8), executor), scaffold(p, option, 0.8))


@EXECUTORS
def test_scaffold_weighted_by_samples_has_the_weighted_mean_of_all_controls(executor):
    p, x, c_i, expected = problem("squares"), np.zeros(DIM), np.zeros((N, DIM)), []
    share = np.array(SIZES) / sum(SIZES)
    for S in SCHEDULE:
        c, ends = share @ c_i, {}
        for i in S:
            y = x.copy()
            for a, b in batches(p, i):
                y = y - ETA * (p.gradient(y, a, b) - c_i[i] + c)
            c_i[i] += -c + (x - y) / (K * ETA)
            ends[i] = y
        x = sum(share[i] * y for i, y in ends.items()) / sum(share[i] for i in ends)
        expected.append(x)
    assert_same(walk(p, replace(zoo.scaffold(ETA), weighting=BySamples()), executor), expected)


@EXECUTORS
@KINDS
def test_feddyn_equals_its_box(kind, executor):
    """Acar et al., 2021, Algorithm 1, its inner problem by K steps; their gradient of the last round is h_i."""
    p, alpha = problem(kind), 0.4
    x, h, h_i, expected = np.zeros(DIM), np.zeros(DIM), np.zeros((N, DIM)), []
    for S in SCHEDULE:
        ends = []
        for i in S:
            y = x.copy()
            for a, b in batches(p, i):
                y = y - ETA * (p.gradient(y, a, b) - h_i[i] + alpha * (y - x))
            h_i[i] = h_i[i] - alpha * (y - x)
            ends.append(y)
        h = h - alpha / N * sum(y - x for y in ends)
        x = sum(ends) / len(S) - h / alpha
        expected.append(x)
    assert_same(walk(p, zoo.feddyn(ETA, alpha), executor), expected)


@EXECUTORS
@KINDS
@pytest.mark.parametrize(("rho", "mu"), [(0.0, 0.0), (0.7, 0.0), (0.0, 2.0)])
def test_fednova_equals_its_box(rho, mu, kind, executor):
    """Wang et al., 2020: d_i = D_i / |a_i|_1, tau_eff = sum p_i |a_i|_1, with the paper's accumulation vectors a_i."""
    p, x, expected = problem(kind), np.zeros(DIM), []
    for S in SCHEDULE:
        d, norms = [], []
        for i in S:
            y, v, tau = x.copy(), np.zeros(DIM), len(batches(p, i, unequal=True))
            for a, b in batches(p, i, unequal=True):
                v = rho * v + p.gradient(y, a, b) + mu * (y - x)
                y = y - ETA * v
            vector = [(1 - rho ** (tau - k)) / (1 - rho) for k in range(tau)]
            vector = [(1 - ETA * mu) ** (tau - 1 - k) for k in range(tau)] if mu else vector
            norms.append(sum(vector))
            d.append((x - y) / sum(vector))
        x = x - sum(norms) / len(S) * sum(d) / len(S)
        expected.append(x)
    assert_same(walk(p, zoo.fednova(ETA, rho, mu), executor, EPOCHWISE), expected)


@EXECUTORS
@KINDS
@pytest.mark.parametrize("divide", [False, True])
def test_fedlin_equals_its_box(divide, kind, executor):
    """Mitra et al., 2021, Algorithm 1: two exchanges, eta_i = eta / tau_i."""
    p, x, expected = problem(kind), np.zeros(DIM), []
    for S in SCHEDULE:
        g, ends = sum(full_gradient(p, i, x) for i in S) / len(S), []
        for i in S:
            y, own = x.copy(), full_gradient(p, i, x)
            local = batches(p, i, unequal=True)
            eta = 0.3 / len(local) if divide else ETA
            for a, b in local:
                y = y - eta * (p.gradient(y, a, b) - own + g)
            ends.append(y)
        x = sum(ends) / len(S)
        expected.append(x)
    assert_same(walk(p, zoo.fedlin(0.3 if divide else ETA, divide), executor, EPOCHWISE), expected)


@dataclass(frozen=True)
class TwoSamples(Sampling):
    """The clients that train, and for any other seed than 0 the clients that are asked for gradients."""

    def __call__(self, population, per_round, seed, round):
        return list((SCHEDULE if seed == 0 else OTHERS)[round])


@EXECUTORS
@KINDS
def test_feddane_equals_its_box(kind, executor):
    """Li et al., 2019, Algorithm 2: gradients from one sample of clients, solutions from another."""
    p, mu, x, expected = problem(kind), 0.6, np.zeros(DIM), []
    for S, asked in zip(SCHEDULE, OTHERS, strict=True):
        g, ends = sum(full_gradient(p, j, x) for j in asked) / len(asked), []
        for i in S:
            y, own = x.copy(), full_gradient(p, i, x)
            for a, b in batches(p, i):
                y = y - ETA * (p.gradient(y, a, b) + g - own + mu * (y - x))
            ends.append(y)
        x = sum(ends) / len(S)
        expected.append(x)
    assert_same(walk(p, zoo.feddane(ETA, mu), executor, sampling=TwoSamples()), expected)


@EXECUTORS
@KINDS
@pytest.mark.parametrize("adam", [False, True])
@pytest.mark.parametrize("lite", [False, True])
def test_mime_equals_its_box(lite, adam, kind, executor):
    """Karimireddy et al., 2021, Algorithm 1: U = beta m + (1 - beta) g, for Adam divided by sqrt(v) + eps; v begins at 1."""
    p, beta, x, m, v, expected = problem(kind), 0.8, np.zeros(DIM), np.zeros(DIM), np.ones(DIM), []
    for S in SCHEDULE:
        c, ends = sum(full_gradient(p, i, x) for i in S) / len(S), []
        for i in S:
            y = x.copy()
            for a, b in batches(p, i):
                g = p.gradient(y, a, b)
                g = g if lite else g - p.gradient(x, a, b) + c
                y = y - 0.2 * (beta * m + (1 - beta) * g) / (np.sqrt(v) + 0.1 if adam else 1)
            ends.append(y)
        m, v = beta * m + (1 - beta) * c, 0.7 * v + 0.3 * c**2
        x = sum(ends) / len(S)
        expected.append(x)
    if adam:
        algorithm = (zoo.mimelite_adam if lite else zoo.mime_adam)(0.2, beta, 0.7, 0.1)
    else:
        algorithm = (zoo.mimelite if lite else zoo.mime)(0.2, beta)
    assert_same(walk(p, algorithm, executor), expected)
