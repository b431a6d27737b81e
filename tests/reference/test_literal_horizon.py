"""PAdaMFed, ParFreFL, FedInit, FedLESAM, adaptive backtracking and FedMuon: the boxes in numpy against the library.

The set-up is that of test_literal_numpy.py. D_i = w_{t,K}^i - w_t, as in test_literal_servers.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_literal_numpy import (
    BATCH,
    DIM,
    EXECUTORS,
    KINDS,
    SCHEDULE,
    SIZES,
    Array,
    K,
    problem,
)
from test_literal_rivals import STEP, mean, rounds
from test_literal_servers import assert_same, library

from fedstep import zoo
from fedstep.algorithm import Algorithm
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Executor, Store, Task
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.server.codecs import ErrorFeedback, TopK
from fedstep.server.sampling import Given

N = len(SIZES)
T, S_PLANNED = 40, 3  # of the plan from which steps follow; the cohorts themselves vary


def unit(v: Array) -> Array:
    return v / np.linalg.norm(v)


@EXECUTORS
@KINDS
def test_padamfed_normalises_a_controlled_momentum(kind, executor):
    p = problem(kind)
    SK = S_PLANNED * K
    beta, gamma, eta = np.sqrt(SK / T), SK**0.25 / T**0.75, 1 / (K * T)
    c_i, c, g = np.zeros((N, DIM)), np.zeros(DIM), None

    def one(w_t: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        nonlocal c, g
        ways, changes = [], []
        for i in S:
            w, own = w_t.copy(), []
            for a, y in p.local_batches(i):
                own.append(p.gradient(w, a, y))
                known = np.zeros(DIM) if g is None else g
                w = w - eta * unit(beta * (own[-1] - c_i[i] + c) + (1 - beta) * known)
            ways.append((w_t - w) / (eta * K))
            changes.append(mean(own) - c_i[i])
            c_i[i] += changes[-1]
        fresh = mean(changes) + c
        g = fresh if g is None else beta * fresh + (1 - beta) * g
        c = c + sum(changes) / N
        return w_t - gamma * mean(ways), gamma

    assert beta < 1
    assert_same(library(p, zoo.padamfed(T, S_PLANNED, K), executor), rounds(one), 1e-10)


@EXECUTORS
@KINDS
def test_padamfed_vr_compares_every_batch_at_the_model_before(kind, executor):
    p = problem(kind)
    gamma, eta = (S_PLANNED * K) ** (1 / 3) / T ** (2 / 3), 1 / (K * T)
    beta = gamma
    c_i, c, g, before = np.zeros((N, DIM)), np.zeros(DIM), None, None

    def one(w_t: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        nonlocal c, g, before
        ways, changes, directions = [], [], []
        for i in S:
            w, own = w_t.copy(), []
            for a, y in p.local_batches(i):
                own.append(p.gradient(w, a, y))
                v = own[-1] + beta * (c - c_i[i])
                if g is not None:
                    v = v + (1 - beta) * (g - p.gradient(before, a, y))
                directions.append(v)
                w = w - eta * unit(v)
            ways.append((w_t - w) / (eta * K))
            changes.append(mean(own) - c_i[i])
            c_i[i] += changes[-1]
        g, before = mean(directions), w_t
        c = c + sum(changes) / N
        return w_t - gamma * mean(ways), gamma

    assert beta < 1
    assert_same(library(p, zoo.padamfed_vr(T, S_PLANNED, K), executor), rounds(one), 1e-10)


def parfrefl_rounds(p, keep: int) -> Iterator[tuple[Array, float]]:
    """keep: coordinates that are sent; what is left out waits for the next change."""
    SK = S_PLANNED * K
    beta, gamma, eta = np.sqrt(SK / T), SK**0.25 / T**0.75, 1 / (K * (SK * T) ** 0.25)
    m_i, waiting, met, c = np.zeros((N, DIM)), np.zeros((N, DIM)), [False] * N, np.zeros(DIM)

    def one(w_t: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        nonlocal c
        sent = []
        for i in S:
            w, own = w_t.copy(), []
            for a, y in p.local_batches(i):
                own.append(p.gradient(w, a, y))
                w = w - eta * unit(beta * own[-1] + (1 - beta) * m_i[i])
            new = beta * mean(own) + (1 - beta) * m_i[i] if met[i] else mean(own)
            whole = new - m_i[i] + waiting[i]
            m_i[i], met[i] = new, True
            packed = np.zeros(DIM)
            largest = np.argsort(-np.abs(whole))[:keep]
            packed[largest] = whole[largest]
            waiting[i] = whole - packed
            sent.append(packed)
        h = c + mean(sent)
        c = c + sum(sent) / N
        return w_t - gamma * unit(h), gamma / np.linalg.norm(h)

    assert beta < 1
    return rounds(one)


@EXECUTORS
@KINDS
def test_parfrefl_sends_the_change_of_a_client_s_own_momentum(kind, executor):
    p = problem(kind)
    algorithm = zoo.parfrefl(T, S_PLANNED, K)
    assert_same(library(p, algorithm, executor), parfrefl_rounds(p, DIM), 1e-10)


@EXECUTORS
@KINDS
def test_comparfrefl_is_parfrefl_with_error_feedback(kind, executor):
    p = problem(kind)
    algorithm = replace(zoo.parfrefl(T, S_PLANNED, K), codec=ErrorFeedback(TopK(0.5)))
    assert_same(library(p, algorithm, executor), parfrefl_rounds(p, DIM // 2), 1e-10)


@EXECUTORS
@KINDS
def test_fedinit_begins_beyond_the_model_away_from_the_last_end(kind, executor):
    p = problem(kind)
    beta = 0.3
    ends: dict[int, Array] = {}

    def one(w_t: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        for i in S:
            w = w_t.copy()
            if i in ends:
                w = w_t + beta * (w_t - ends[i])
            for a, y in p.local_batches(i):
                w = w - STEP * p.gradient(w, a, y)
            ends[i] = w
        return mean([ends[i] for i in S]), 1.0

    assert_same(library(p, zoo.fedinit(STEP, beta), executor), rounds(one))


@EXECUTORS
@KINDS
def test_fedlesam_looks_back_along_the_last_round(kind, executor):
    p = problem(kind)
    rho, last = 0.2, np.zeros(DIM)

    def one(w_t: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        nonlocal last
        shift = rho * unit(last) if last.any() else last
        ends = []
        for i in S:
            w = w_t.copy()
            for a, y in p.local_batches(i):
                w = w - STEP * p.gradient(w - shift, a, y)
            ends.append(w - w_t)
        last = mean(ends)
        return w_t + last, 1.0

    assert_same(library(p, zoo.fedlesam(STEP, rho), executor), rounds(one))


@EXECUTORS
@KINDS
def test_adaptive_backtracking_shortens_by_what_the_refusal_says(kind, executor):
    p = problem(kind)
    c, rho, least, eta_max = 0.2, 0.8, 0.4, 3.0

    def client(w_t: Array, i: int) -> Array:
        w, eta, n = w_t.copy(), eta_max, len(p.clients[i][1])
        for k, (a, y) in enumerate(p.local_batches(i)):
            f, g = p.loss(w, a, y), p.gradient(w, a, y)
            if k:
                eta = min(eta * 2 ** (len(y) / n), eta_max)
            v = (p.loss(w - eta * g, a, y) - f) / (-c * eta * (g @ g))
            while v < 1:
                eta *= max(least, rho * (1 - c) / (1 - c * v))
                v = (p.loss(w - eta * g, a, y) - f) / (-c * eta * (g @ g))
            w = w - eta * g
        return w

    def one(w: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        return w + mean([client(w, i) - w for i in S]), 1.0

    algorithm = zoo.fedsls_adaptive(c, eta_max, rho, least)
    assert_same(library(p, algorithm, executor), rounds(one), 1e-9)


# Muon: softmax regression, a matrix of 3 x 4 and a vector of 3


CLASSES = 3


def newton_schulz(M: Array) -> Array:
    X = M / (np.linalg.norm(M) + 1e-7)
    if X.shape[0] > X.shape[1]:
        return newton_schulz(M.T).T
    for _ in range(5):
        A = X @ X.T
        X = 3.4445 * X + (-4.7750 * A + 2.0315 * A @ A) @ X
    return X


def softmax_gradient(W: Array, b: Array, a: Array, y: Array) -> tuple[Array, Array]:
    logits = a @ W.T + b
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return p.T @ a / len(y), p.mean(0)


def muon_clients() -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(5)
    return [(rng.standard_normal((n, DIM)), rng.integers(CLASSES, size=n)) for n in SIZES]


def muon_rounds(step: float, rate: float, gamma: float, beta: float) -> Iterator[Array]:
    """gamma > 0: FedMuon; 0: Local Muon."""
    clients = muon_clients()
    W_t, b_t = np.zeros((CLASSES, DIM)), np.zeros(CLASSES)
    m_t, D_W, D_b = np.zeros_like(W_t), np.zeros_like(W_t), np.zeros_like(b_t)
    lr = step * (1 - gamma)
    for S in SCHEDULE:
        ends, momenta = [], []
        for i in S:
            W, b, m = W_t.copy(), b_t.copy(), m_t.copy()
            first, second = np.zeros(CLASSES), np.zeros(CLASSES)
            a, y = clients[i]
            starts = [0]
            while len(starts) < K:
                after = starts[-1] + BATCH
                starts.append(after if after < len(y) else 0)
            for k, at in enumerate(starts, start=1):
                G, g = softmax_gradient(W, b, a[at : at + BATCH], y[at : at + BATCH])
                norm = np.sqrt(np.sum(G**2) + np.sum(g**2))
                factor = min(1.0, 0.3 / (norm + 1e-6))
                G, g = factor * G, factor * g
                m = beta * m + (1 - beta) * G
                turned = newton_schulz(beta * m + (1 - beta) * G)
                first, second = 0.9 * first + 0.1 * g, 0.95 * second + 0.05 * g**2
                adam = first / (1 - 0.9**k) / (np.sqrt(second / (1 - 0.95**k)) + 1e-10)
                W = W * (1 - lr * rate * 0.01) - lr * rate * turned + gamma * D_W / K
                b = b * (1 - lr * 0.01) - lr * adam + gamma * D_b / K
            ends.append((W - W_t, b - b_t))
            momenta.append(m)
        D_W, D_b = mean([e[0] for e in ends]), mean([e[1] for e in ends])
        W_t, b_t = W_t + D_W, b_t + D_b
        if gamma:
            m_t = mean(momenta)
        yield np.concatenate([W_t.ravel(), b_t])


def muon_library(algorithm: Algorithm, executor: Executor) -> list[Array]:
    layer = torch.nn.Linear(DIM, CLASSES, dtype=torch.float64)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    data = Federation.of([(torch.tensor(a), torch.tensor(y)) for a, y in muon_clients()])
    task = Task(algorithm, ModuleModel(layer), data, Plan(BATCH, K, order=InOrder()))
    sim = Simulation(task, 3, Given(SCHEDULE), executor)
    return [s.x.numpy() for s, _ in sim.run(sim.begin(len(SCHEDULE)), Store(), len(SCHEDULE))]


@EXECUTORS
@pytest.mark.parametrize("align", [0.0, 0.4])
def test_muon_steps_by_orthogonal_matrices(executor, align):
    beta = 0.9
    if align:
        algorithm = zoo.fedmuon(0.05, 0.7, align, clip=0.3, beta=beta)
    else:
        algorithm = zoo.local_muon(0.05, 0.7, clip=0.3, beta=beta)
    found = muon_library(algorithm, executor)
    for x, want in zip(found, muon_rounds(0.05, 0.7, align, beta), strict=True):
        np.testing.assert_allclose(x, want, rtol=0, atol=1e-6)
