"""fedpace and fedpace_recall written out in numpy, one number at a time, against the library.

The set-up is that of test_literal_numpy.py. D_i = w_{t,K}^i - w_t.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import exp, inf, log

import numpy as np
import pytest
import torch
from test_literal_numpy import DIM, EXECUTORS, KINDS, SCHEDULE, Array, K, Problem, problem
from test_literal_servers import assert_same, library

from fedstep import zoo
from fedstep.steps.pace import Pace

AIM, C, NOISE = 0.3, 1e-4, 4 * np.finfo(np.float64).eps
TAU, BETA = 0.1, 0.5
RAREST, STEEPER = 8, 1.0
EVERY = 4
LONGEST, LENGTHS = 3.0, 0.8


def tilted(p: Problem, tilt: Array) -> Problem:
    """The same clients, whose functions have <tilt, w> added."""
    return replace(
        p,
        loss=lambda w, a, y: p.loss(w, a, y) + float(tilt @ w),
        gradient=lambda w, a, y: p.gradient(w, a, y) + tilt,
    )


def accepted_step(
    p: Problem, w: Array, d: Array, a: Array, y: Array, eta: float
) -> tuple[float, float]:
    """The step along d that Armijo accepts and its quotient; refused trials go to their parabola."""
    f, slope = p.loss(w, a, y), p.gradient(w, a, y) @ d
    while True:
        value = p.loss(w + eta * d, a, y)
        quotient = (value - f) / (eta * slope)
        if value <= f + C * eta * slope:
            break
        eta = min(max(0.4 * eta / (1 - quotient), 0.1 * eta), 0.9 * eta)
    assert abs(value - f) > NOISE * abs(f)  # null steps have tests of their own
    return eta, quotient


def pace_client(
    p: Problem, w_t: Array, i: int, T: float, s: float, scale: Array
) -> tuple[Array, float, Array, float | None, Array]:
    """The client's model, the logarithm of its step, its squared gradients, its overshoot and its mean gradient."""
    w, last, guess = w_t.copy(), 0.0, 0.0
    promised, bent, squares, gradients = 0.0, 0.0, np.zeros(DIM), np.zeros(DIM)
    since, searched = 0, 0.0
    ahead, behind, first = 0.0, 0.0, np.zeros(DIM)
    for k, (a, y) in enumerate(p.local_batches(i)):
        g = p.gradient(w, a, y)
        if k == 0:
            first = g
        elif k % EVERY == 0:
            ahead += g @ (w - w_t)
            behind -= first @ (w - w_t)
        d = -g / (np.sqrt(scale) + TAU)
        squares += g**2
        gradients += g
        if last == 0:
            eta = T or 0.01 * p.loss(w, a, y) / -(g @ d)
        else:
            eta = min(max(exp(guess), last / 2), 2 * last, T or inf)
        since += 1
        if T and since < RAREST and -(g @ d) <= STEEPER * searched:
            w = w + s * eta * d  # untested
            continue
        since, searched = 0, -(g @ d)
        eta, quotient = accepted_step(p, w, d, a, y, eta)
        limit = 2 * eta
        if quotient < 1:
            limit = min(limit, eta * (1 - AIM) / (1 - quotient))
        if last == 0 or limit == 2 * eta:
            guess = log(limit)
        else:
            guess = 0.7 * guess + 0.3 * log(limit)
        promised += -(g @ d)
        bent += -(g @ d) / limit
        last = eta
        w = w + s * eta * d
    overshoot = min(max(ahead / behind, -1.0), 1.0) if behind > 0 else None
    report = log(promised / bent) if T else guess
    return w, report, squares / np.mean(squares), overshoot, gradients / K


def cos(a: Array, b: Array) -> float:
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / lengths) if lengths else 0.0


class LiteralPace:
    def __init__(self, dim: int) -> None:
        self.M = np.zeros(dim)
        self.a, self.gain = 0.0, 1.0
        self.edge, self.full = 0.0, 0.0

    def after(self, D: Array, overshoot: float, T: float) -> None:
        first = not self.edge
        if not first and cos(D, self.M) <= 0:
            self.gain = 0.5
        self.edge = T if first else self.edge**0.9 * T**0.1
        if first or self.a == 0:
            self.full = max(self.edge, self.full**0.98 * self.edge**0.02)
        agreement = cos(D, self.M)
        if agreement < 0:
            sharpened = max(0.0, log(self.full / self.edge) - 0.3)
            agreement = min(0.0, agreement + sharpened)
        self.a = min(0.0, self.a + self.gain * (agreement - max(0.0, overshoot)))
        self.M = 0.9 * self.M + 0.1 * D


class Controls:
    """What clients remember, and how far it is relied on."""

    def __init__(self) -> None:
        self.of: dict[int, Array] = {}
        self.r, self.foretold, self.recalled = 0.0, 0.0, 0.0

    @property
    def c(self) -> Array:
        return sum(self.of.values()) / len(self.of) if self.of else np.zeros(DIM)

    def tilt(self, i: int) -> Array:
        return self.r * (self.c - self.of[i]) if i in self.of else np.zeros(DIM)

    def after(self, S: tuple[int, ...], gradients: list[Array]) -> None:
        """gradients: the mean gradient of every client of S along its path, tilt included."""
        own = {i: g - self.tilt(i) for i, g in zip(S, gradients, strict=True)}
        again = [i for i in S if i in self.of]
        foretold = sum((own[i] - self.c) @ (self.of[i] - self.c) for i in again)
        recalled = sum((self.of[i] - self.c) @ (self.of[i] - self.c) for i in again)
        self.foretold = 0.9 * self.foretold + foretold / len(S)
        self.recalled = 0.9 * self.recalled + recalled / len(S)
        self.of.update(own)
        if self.recalled:
            self.r = min(max(self.foretold / self.recalled, 0.0), 1.0)


def pace_rounds(p: Problem, controls: Controls | None = None) -> Iterator[tuple[Array, float]]:
    w, m, scale = np.zeros(DIM), np.zeros(DIM), np.ones(DIM)
    T, b, L = 0.0, 0.0, 0.0
    pace = LiteralPace(DIM)
    for t, S in enumerate(SCHEDULE):
        bent = [tilted(p, controls.tilt(i)) if controls else p for i in S]
        ends = [pace_client(f, w, i, T, exp(pace.a), scale) for f, i in zip(bent, S, strict=True)]
        if controls:
            controls.after(S, [end[4] for end in ends])
        deltas = [end[0] - w for end in ends]
        D = sum(deltas) / len(S)
        measured = exp(np.mean([end[1] for end in ends]))
        if T == 0:
            T = measured
        elif measured > 1.7 * T:
            T = min(measured, 2 * T)
        else:
            T = min(measured, 1.05 * T)
        squares = sum(end[2] for end in ends) / len(S)
        squares = squares / np.mean(squares)
        scale = squares if t == 0 else 0.9 * scale + 0.1 * squares
        shares = [end[3] for end in ends if end[3] is not None]
        overshoot = float(np.mean(shares)) if shares else 0.0
        pace.after(D, overshoot, T)
        spread = np.mean([delta @ delta for delta in deltas]) / (D @ D)
        b = max(min(b + 0.5 * cos(D, m), log(min(4.0, max(1.0, spread)))), 0.0)
        length = min(np.linalg.norm(D), LONGEST * L or inf)
        m = BETA * m + D * length / np.linalg.norm(D)
        L = LENGTHS * L + (1 - LENGTHS) * length if L else length
        w = w + exp(b) * np.sqrt(1 - BETA) * m
        yield w, exp(b)


@EXECUTORS
@KINDS
def test_fedpace_shares_a_step_and_a_scale_keeps_a_pace_and_goes_on(kind, executor):
    p = problem(kind)
    assert_same(library(p, zoo.fedpace(), executor), pace_rounds(p), 1e-9)


@EXECUTORS
@KINDS
def test_fedpace_recall_takes_away_what_clients_remember(kind, executor):
    p, controls = problem(kind), Controls()
    assert_same(library(p, zoo.fedpace_recall(), executor), pace_rounds(p, controls), 1e-9)
    # clients that come back meet something of what they left with
    assert 0.1 < controls.r < 1


@pytest.mark.parametrize("seed", range(5))
def test_the_pace_after_any_rounds(seed):
    rng = np.random.default_rng(seed)
    literal, pace = LiteralPace(3), Pace()
    state = pace.init(torch.zeros(3, dtype=torch.float64))
    T, excused = 1.0, 0
    for _ in range(80):
        D, overshoot = rng.standard_normal(3), 0.2 * rng.standard_normal()
        T *= exp(0.2 * rng.standard_normal() - 0.05)
        literal.after(D, overshoot, T)
        state = pace.after(
            *(torch.tensor(v, dtype=torch.float64) for v in (D, overshoot, T)), state
        )
        assert float(state["log"]) == pytest.approx(literal.a, abs=1e-9)
        excused += literal.a < 0 and log(literal.full / literal.edge) > 0.3
    assert excused
