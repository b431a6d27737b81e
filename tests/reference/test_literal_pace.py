"""fedpace written out in numpy, one number at a time, against the library.

The set-up is that of test_literal_numpy.py. D_i = w_{t,K}^i - w_t.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, inf, log

import numpy as np
from test_literal_numpy import DIM, EXECUTORS, KINDS, SCHEDULE, Array, Problem, problem
from test_literal_servers import assert_same, library

from fedstep import zoo

AIM, C, NOISE = 0.3, 1e-4, 4 * np.finfo(np.float64).eps


def accepted_step(p: Problem, w: Array, a: Array, y: Array, eta: float) -> tuple[float, float]:
    """The step that Armijo accepts and its quotient; refused trials go to their parabola."""
    f, g = p.loss(w, a, y), p.gradient(w, a, y)
    while True:
        value = p.loss(w - eta * g, a, y)
        quotient = (f - value) / (eta * (g @ g))
        if value <= f - C * eta * (g @ g):
            break
        eta = min(max(0.4 * eta / (1 - quotient), 0.1 * eta), 0.9 * eta)
    assert abs(value - f) > NOISE * f  # null steps have tests of their own
    return eta, quotient


def pace_client(p: Problem, w_t: Array, i: int, T: float, s: float) -> tuple[Array, float]:
    """The client's model, and the mean of 1 / limit that it reports."""
    w, last, guess = w_t.copy(), 0.0, 0.0
    promised, bent = 0.0, 0.0
    for a, y in p.local_batches(i):
        g = p.gradient(w, a, y)
        if last == 0:
            eta = T or 0.01 * p.loss(w, a, y) / (g @ g)
        else:
            eta = min(max(exp(guess), last / 2), 2 * last, T or inf)
        eta, quotient = accepted_step(p, w, a, y, eta)
        limit = 2 * eta
        if quotient < 1:
            limit = min(limit, eta * (1 - AIM) / (1 - quotient))
        if last == 0 or limit == 2 * eta:
            guess = log(limit)
        else:
            guess = 0.7 * guess + 0.3 * log(limit)
        promised += g @ g
        bent += g @ g / limit
        last = eta
        w = w - s * eta * g
    return w, bent / promised if T else exp(-guess)


def cos(a: Array, b: Array) -> float:
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / lengths) if lengths else 0.0


def pace_rounds(p: Problem) -> Iterator[tuple[Array, float]]:
    w, M, v, u = (np.zeros(DIM) for _ in range(4))
    T, a, gain, b = 0.0, 0.0, 1.0, 0.0
    for t, S in enumerate(SCHEDULE):
        ends = [pace_client(p, w, i, T, exp(a)) for i in S]
        D = sum(end - w for end, _ in ends) / len(S)
        measured = len(S) / sum(inverse for _, inverse in ends)
        if T == 0:
            T = measured
        elif measured > 1.7 * T:
            T = min(measured, 2 * T)
        else:
            T = min(measured, 1.05 * T)
        if t > 0 and cos(D, M) <= 0:
            gain = 0.5
        a = min(0.0, a + gain * cos(D, M))
        M = 0.9 * M + 0.1 * D
        b = min(max(b + 0.5 * cos(D, u), 0.0), log(4.0))
        v = 0.99 * v + 0.01 * D**2
        root = np.sqrt(v / (1 - 0.99 ** (t + 1)))
        u = D / (root + 0.1 * np.sqrt(np.mean(root**2)))
        u = u * np.linalg.norm(D) / np.linalg.norm(u)
        w = w + exp(b) * u
        yield w, exp(b)


@EXECUTORS
@KINDS
def test_fedpace_shares_a_step_keeps_a_pace_and_goes_on(kind, executor):
    p = problem(kind)
    assert_same(library(p, zoo.fedpace(), executor), pace_rounds(p), 1e-9)
