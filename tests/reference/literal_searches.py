"""The step rules of the papers and programs, written out in numpy from their descriptions, one client at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

Array = np.ndarray
Batch = tuple[Array, Array]


@dataclass(frozen=True)
class Problem:
    """Twelve samples in batches of three, in order."""

    kind: str  # squares or logistic
    a: Array
    y: Array

    def batches(self, steps: int) -> list[Batch]:
        return [(self.a[i : i + 3], self.y[i : i + 3]) for i in (3 * (k % 4) for k in range(steps))]

    def value(self, w: Array, batch: Batch) -> float:
        a, y = batch
        z = a @ w
        if self.kind == "squares":
            return float(np.mean((z - y) ** 2))
        return float(np.mean(np.maximum(z, 0) - z * y + np.log1p(np.exp(-np.abs(z)))))

    def gradient(self, w: Array, batch: Batch) -> Array:
        a, y = batch
        z = a @ w
        r = 2 * (z - y) if self.kind == "squares" else np.exp(-np.logaddexp(0, -z)) - y
        return a.T @ r / len(y)


def problem(kind: str) -> Problem:
    i = np.arange(12)[:, None]
    if kind == "squares":
        j = np.arange(4)
        a = np.sin(1 + 4 * i + j) * (1 + 0.25 * j)
        return Problem(kind, a, a @ np.array([1.0, -2.0, 0.5, 3.0]) + 0.1 * np.cos(i[:, 0]))
    j = np.arange(3)
    return Problem(
        kind, np.cos(0.7 * i + 1.3 * j) * (1 + 0.5 * j), (i[:, 0] % 3 == 0).astype(float)
    )


@dataclass
class Walk:
    """What a client did."""

    w: Array
    steps: list[float]
    trials: list[int]


def walk(
    p: Problem, steps: int, rule: Callable[[Array, Batch, float, Array], tuple[float, int]]
) -> Walk:
    """w <- w - eta g; the rule gives eta and its number of trials."""
    out = Walk(np.zeros(p.a.shape[1]), [], [])
    for batch in p.batches(steps):
        f, g = p.value(out.w, batch), p.gradient(out.w, batch)
        eta, trials = rule(out.w, batch, f, g)
        out.w = out.w - eta * g
        out.steps.append(eta)
        out.trials.append(trials)
    return out


def sls(
    p: Problem,
    steps: int,
    goldstein: bool,
    c: float,
    init: float,
    reset: int,
    beta_b: float = 0.9,
    beta_f: float = 2.0,
    eta_max: float = 10.0,
    gamma: float = 2.0,
    n_batches: float = 4,
    most: int = 100,
) -> Walk:
    """The SLS optimiser; reset in the program's numbers: 0 keep, 1 grow, 2 initial value."""
    last = init

    def rule(w: Array, batch: Batch, f: float, g: Array) -> tuple[float, int]:
        nonlocal last
        eta = {0: last, 1: last * gamma ** (1 / n_batches), 2: init}[reset]
        square, taken, trials = float(g @ g), 0.0, 0
        if np.sqrt(square) >= 1e-8:
            found = 0
            while trials < most and found != 3:
                trials, taken = trials + 1, eta
                new = p.value(w - eta * g, batch)
                enough = new <= f - c * eta * square
                if not goldstein:
                    found = 3 if enough else 0
                    eta = eta if enough else eta * beta_b
                    continue
                far = new >= f - (1 - c) * eta * square
                found = 3 if enough and far else 1 if enough else 2
                if found == 1:
                    eta = min(eta * beta_f, eta_max)
                elif found == 2:
                    eta = max(eta * beta_b, 1e-8)
            if found == 0:
                taken = 1e-6
        last = eta
        return taken, trials

    return walk(p, steps, rule)


def ponos(
    p: Problem,
    steps: int,
    c: float = 0.5,
    c_p: float = 0.1,
    delta: float = 0.5,
    xi: float = 1.0,
    max_eta: float = 10.0,
    min_eta: float = 1e-6,
    save_backtracks: bool = True,
) -> Walk:
    """PoNoS: Polyak's step cut as often as before, then Armijo against max(C, f)."""
    cuts, big_c, big_q = 0, 0.0, 0.0

    def rule(w: Array, batch: Batch, f: float, g: Array) -> tuple[float, int]:
        nonlocal cuts, big_c, big_q
        square = float(g @ g)
        eta = f / (c_p * square + 1e-8) * (delta**cuts if save_backtracks else 1.0)
        eta = max(min(eta, max_eta), min_eta)
        new_q = xi * big_q + 1
        big_c, big_q = (xi * big_q * big_c + f) / new_q, new_q
        if np.sqrt(square) < 1e-8 or f == 0:
            return 0.0, 0
        e, found = -1, False
        while e < 99 and not found:
            e, found = e + 1, p.value(w - eta * g, batch) <= max(big_c, f) - c * eta * square
            eta = eta if found else eta * delta
        cuts = max(cuts + e - 1, 0)
        return (eta if found else 1e-6), e + 1

    return walk(p, steps, rule)


def nonmonotone(
    p: Problem,
    steps: int,
    c: float,
    beta: float,
    start: float,
    window: int | None,
    xi: float | None,
) -> Walk:
    """Every search begins at `start`; the reference is the program's Grippo (window) or Zhang-Hager (xi) value."""
    losses: list[float] = []
    big_c, big_q = 0.0, 0.0

    def rule(w: Array, batch: Batch, f: float, g: Array) -> tuple[float, int]:
        nonlocal big_c, big_q
        if xi is not None:
            new_q = xi * big_q + 1
            big_c, big_q = (xi * big_q * big_c + f) / new_q, new_q
        earlier = losses[-window:] if window else []
        ref = max(big_c, f) if xi is not None else max([*earlier, f])
        losses.append(f)
        eta, square = start, float(g @ g)
        for e in range(100):
            if p.value(w - eta * g, batch) <= ref - c * eta * square:
                return eta, e + 1
            eta *= beta
        return 1e-6, 100

    return walk(p, steps, rule)


def sps(
    p: Problem,
    steps: int,
    c: float,
    eta_max: float = inf,
    gamma: float | None = None,
    n_batches: float = 4,
    init: float = 1,
) -> Walk:
    """SPS with a constant bound, or (gamma) with a bound that grows from the last step."""
    last = init

    def rule(w: Array, batch: Batch, f: float, g: Array) -> tuple[float, int]:
        nonlocal last
        eta = f / (c * float(g @ g) + 1e-8)
        last = min(eta_max, eta) if gamma is None else min(gamma ** (1 / n_batches) * last, eta)
        return last, 0

    return walk(p, steps, rule)


def decsps(p: Problem, steps: int, c: float, bound: float) -> Walk:
    """DecSPS: eta_k = min(f / |g|^2, c_{k-1} eta_{k-1}) / c_k with c_k = c sqrt(k + 1)."""
    k, last = 0, bound

    def rule(w: Array, batch: Batch, f: float, g: Array) -> tuple[float, int]:
        nonlocal k, last
        before = c if k == 0 else c * np.sqrt(k)
        last = min(f / float(g @ g), before * last) / (c * np.sqrt(k + 1))
        k += 1
        return float(last), 0

    return walk(p, steps, rule)


def salsa(
    p: Problem,
    steps: int,
    c: float,
    beta: float,
    init: float,
    shrink: float,
    grow: float,
    rarest: float,
    cap: float,
) -> Walk:
    """SaLSa for plain gradient descent: running means of both sides, and searches only as often as steps change."""
    last, h, s = init, 0.0, 0.0
    fast = slow = 1e-8
    since, k = rarest, 0

    def rule(w: Array, batch: Batch, f: float, g: Array) -> tuple[float, int]:
        nonlocal last, h, s, fast, slow, since, k
        k, since = k + 1, since + 1
        change = max(fast / slow, slow / fast)
        eta = min(last * grow, cap)
        if k >= 10 and since < min(rarest, 1 / (change - 1 + 1e-8)):
            return eta, 0
        since, s = 0, beta * s + (1 - beta) * float(g @ g)
        trials, new = 1, beta * h + (1 - beta) * (f - p.value(w - eta * g, batch))
        while new < c * eta * s:
            eta, trials = eta * shrink, trials + 1
            new = beta * h + (1 - beta) * (f - p.value(w - eta * g, batch))
        h, last = new, eta
        fast, slow = 0.9 * fast + 0.1 * eta, 0.99 * slow + 0.01 * eta
        return eta, trials

    return walk(p, steps, rule)


def federated(
    clients: Sequence[Batch],
    schedule: Sequence[Sequence[int]],
    local: Callable[[Array, Batch], Array],
    eps: float | None,
) -> dict[str, list[Any]]:
    """The published server loop: weighted means; with eps, extrapolation and the mean of the last two iterates."""
    w = np.zeros(15)
    out: dict[str, list[Any]] = {"w": [], "eta_g": [], "evaluated": []}
    for t, ids in enumerate(schedule):
        p = np.array([len(clients[i][1]) for i in ids], dtype=float)
        p /= p.sum()
        deltas = [local(w, clients[i]) - w for i in ids]
        mean = sum(p_i * d for p_i, d in zip(p, deltas, strict=True))
        eta_g = 1.0
        if eps is not None:
            squares = sum(p_i * float(d @ d) for p_i, d in zip(p, deltas, strict=True))
            eta_g = max(
                1.0, 0.5 * squares / (float(mean @ mean) + len(ids) * eps * 0.998 ** (2 * (t + 1)))
            )
        new = w + eta_g * mean
        out["evaluated"].append((w + new) / 2 if eps is not None and t > 0 else new)
        out["w"].append(new)
        out["eta_g"].append(eta_g)
        w = new
    return out
