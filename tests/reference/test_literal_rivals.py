"""Tuning-free rivals, momentum and sharpness on the clients: the papers' boxes in numpy against the library.

The set-up is that of test_literal_numpy.py. D_i = w_{t,K}^i - w_t, as in test_literal_servers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from test_literal_numpy import (
    DIM,
    EXECUTORS,
    KINDS,
    SCHEDULE,
    SIZES,
    Array,
    Problem,
    problem,
    sgd_client,
)
from test_literal_servers import assert_same, library

from fedstep import authors, zoo

STEP = 0.05
Round = Callable[[Array, tuple[int, ...]], tuple[Array, float]]


def rounds(one: Round) -> Iterator[tuple[Array, float]]:
    w = np.zeros(DIM)
    for S in SCHEDULE:
        w, eta_g = one(w, S)
        yield w, eta_g


def mean(values: list[Array]) -> Array:
    return sum(values) / len(values)


def uphill_gradient(p: Problem, w: Array, a: Array, y: Array, rho: float) -> Array:
    g = p.gradient(w, a, y)
    return p.gradient(w + rho * g / (np.linalg.norm(g) + 1e-7), a, y)


def fathom_rounds(p: Problem, rate: float, max_step: float) -> Iterator[tuple[Array, float]]:
    log_step, M = np.log(STEP), np.zeros(DIM)

    def one(w: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        nonlocal log_step, M
        step = min(np.exp(log_step), max_step)
        D = mean([sgd_client(p, w, i, step)[0] - w for i in S])
        if M.any():
            log_step += rate * (D @ M) / (np.linalg.norm(D) * np.linalg.norm(M))
        M = 0.5 * M + 0.5 * D
        return w + D, 1.0

    return rounds(one)


@EXECUTORS
@KINDS
def test_fathom_moves_the_step_by_the_cosine_with_the_mean_before(kind, executor):
    p = problem(kind)
    # a rate far above the program's, so that six rounds show it, and a bound that is reached
    algorithm = zoo.fathom(STEP, rate=0.8, max_step=0.06)
    assert_same(library(p, algorithm, executor), fathom_rounds(p, 0.8, 0.06))


@EXECUTORS
@KINDS
def test_fedglad_divides_the_diversity_by_its_mean_so_far(kind, executor):
    p = problem(kind)
    bound = 0.1
    t, B = 0, 0.0

    def one(w: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        nonlocal t, B
        deltas = [sgd_client(p, w, i, STEP)[0] - w for i in S]
        D = mean(deltas)
        distances = sum(np.sum((D - D_i) ** 2) for D_i in deltas)
        norms = sum(np.sum(D_i**2) for D_i in deltas)
        G = np.sqrt(1 / (1 - distances / norms))  # as the program computes it
        if t == 0:
            B = G
        eta_g = min(max(G / B, 1 - bound * t), 1 + bound * t)
        if t > 0:
            B = 0.9 * B + 0.1 * G
        t += 1
        return w + eta_g * D, eta_g

    algorithm = zoo.fedglad(STEP, bound=bound)
    assert_same(library(p, algorithm, executor), rounds(one), 1e-10)


@EXECUTORS
@KINDS
@pytest.mark.parametrize("beta", [0.0, 0.7])
def test_ngn_is_the_harmonic_compromise_with_a_damped_inertia(kind, executor, beta):
    p = problem(kind)
    cap = 0.3

    def client(w_t: Array, i: int) -> Array:
        w, before = w_t.copy(), w_t.copy()
        for a, y in p.local_batches(i):
            g = p.gradient(w, a, y)
            eta = cap / (1 + cap * (g @ g) / (2 * p.loss(w, a, y)))
            w, before = w - (1 - beta) * eta * g + beta * (w - before), w
        return w

    def one(w: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        return w + mean([client(w, i) - w for i in S]), 1.0

    algorithm = zoo.fedngn(cap, momentum=beta)
    assert_same(library(p, algorithm, executor), rounds(one))


@EXECUTORS
@KINDS
@pytest.mark.parametrize("rho", [0.0, 0.2])
def test_fedcm_and_mofedsam_mix_the_last_direction_into_every_step(kind, executor, rho):
    p = problem(kind)
    alpha = 0.3
    M = np.zeros(DIM)

    def one(w_t: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        nonlocal M
        ends, steps = [], 0
        for i in S:
            w, steps = w_t.copy(), 0
            for a, y in p.local_batches(i):
                g = uphill_gradient(p, w, a, y, rho)
                w, steps = w - STEP * (alpha * g + (1 - alpha) * M), steps + 1
            ends.append(w - w_t)
        D = mean(ends)
        M = -D / (STEP * steps)
        return w_t + D, 1.0

    algorithm = zoo.mofedsam(STEP, rho, alpha) if rho else zoo.fedcm(STEP, alpha)
    assert_same(library(p, algorithm, executor), rounds(one), 1e-10)


@EXECUTORS
@KINDS
def test_fedsam_takes_the_gradient_uphill(kind, executor):
    p = problem(kind)

    def client(w_t: Array, i: int) -> Array:
        w = w_t.copy()
        for a, y in p.local_batches(i):
            w = w - STEP * uphill_gradient(p, w, a, y, 0.2)
        return w

    def one(w: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        return w + mean([client(w, i) - w for i in S]), 1.0

    assert_same(library(p, zoo.fedsam(STEP, 0.2), executor), rounds(one))


@EXECUTORS
@KINDS
def test_fedspeed_keeps_dual_vectors_as_its_program_does(kind, executor):
    p = problem(kind)
    lamb, rho = 0.4, 0.2
    h = np.zeros((len(SIZES), DIM))  # the program's: sums of the clients' updates

    def one(w_t: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        ends = []
        for i in S:
            w = w_t.copy()
            for a, y in p.local_batches(i):
                correction = lamb * w + lamb * (h[i] - w_t)
                w = w - STEP * (uphill_gradient(p, w, a, y, rho) + correction)
            ends.append(w)
        for i, end in zip(S, ends, strict=True):
            h[i] += end - w_t
        return mean(ends) + h.mean(0), 1.0

    assert_same(library(p, zoo.fedspeed(STEP, rho, lamb), executor), rounds(one), 1e-10)


@EXECUTORS
@KINDS
def test_local_adamw_is_adamw_made_anew_every_round(kind, executor):
    p = problem(kind)
    step, decay = 0.02, 0.1

    def client(w_t: Array, i: int) -> Array:
        w, m, v = w_t.copy(), np.zeros(DIM), np.zeros(DIM)
        for k, (a, y) in enumerate(p.local_batches(i), start=1):
            g = p.gradient(w, a, y)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            w = w - step * decay * w
            w = w - step * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
        return w

    def one(w: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        return w + mean([client(w, i) - w for i in S]), 1.0

    algorithm = zoo.local_adamw(step, weight_decay=decay)
    assert_same(library(p, algorithm, executor), rounds(one), 1e-10)


@EXECUTORS
@KINDS
def test_delta_sgd_of_the_program_takes_both_gradients_on_one_batch(kind, executor):
    p = problem(kind)
    amplifier, eps = 0.3, 1e-3  # larger than the program's, so that they show

    def client(w_t: Array, i: int) -> Array:
        w, before, lr, theta = w_t.copy(), w_t.copy(), 0.02, 1.0
        for a, y in p.local_batches(i):
            g = p.gradient(w, a, y)
            turned = np.linalg.norm(g - p.gradient(before, a, y))
            moved = np.linalg.norm(w - before)
            new = lr * np.sqrt(1 + amplifier * theta)
            if moved > 0 and turned > 0:
                new = min(new, moved / turned) + eps
            theta, lr = new / lr, new
            w, before = w - lr * g, w
        return w

    def one(w: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        return w + mean([client(w, i) - w for i in S]), 1.0

    algorithm = authors.delta_sgd(0.02, amplifier, eps=eps)
    assert_same(library(p, algorithm, executor), rounds(one), 1e-10)


@EXECUTORS
@KINDS
def test_delta_sgd_compares_gradients_of_the_batch_at_hand(kind, executor):
    p = problem(kind)
    gamma, delta, start = 0.7, 0.2, 0.02

    def client(w_t: Array, i: int) -> Array:
        w, before, eta, theta = w_t.copy(), w_t.copy(), start, 1.0
        for k, (a, y) in enumerate(p.local_batches(i)):
            g = p.gradient(w, a, y)
            if k:
                turned = np.linalg.norm(g - p.gradient(before, a, y))
                allowed = gamma * np.linalg.norm(w - before) / (2 * turned)
                new = min(allowed, np.sqrt(1 + delta * theta) * eta)
                theta, eta = new / eta, new
            w, before = w - eta * g, w
        return w

    def one(w: Array, S: tuple[int, ...]) -> tuple[Array, float]:
        return w + mean([client(w, i) - w for i in S]), 1.0

    algorithm = zoo.delta_sgd(start, gamma, delta)
    assert_same(library(p, algorithm, executor), rounds(one), 1e-10)
