"""A candidate for the default method in plain PyTorch: clients, server, one loop, nothing to set.

    for server in rounds(loss, x, clients, 100): ...

`loss(x, batch)` is a scalar tensor, x a flat vector; `clients(t)` gives the clients of round t as
(weight, list of batches). docs/pace.md, "A step that is held", has what it reaches and what is open.

One round, with D_i = x_i - x the delta of client i and g the gradient of a batch:

    client    K times  x <- x - s T g / (sqrt p + 0.1);  in the first 10 rounds a line search on the
              batch shortens T where Armijo does not hold, and measures the curvature
    server    D = mean of the D_i;  p <- 0.9 p + 0.1 (mean of g^2, relative to its mean coordinate)
              T <- geometric mean over clients of 1.4 / curvature;  after round 10 T is held, at 2/3
              of its geometric mean over rounds 5 to 10
              m <- b m + (1 - b) D,  b = min(0.9, t / (t + 20));  v <- 0.9 v + 0.1 D^2;  r = sqrt v
              x <- x + f (1 + b / 1.8) |r| u / |u|,  u = m / (r + rms r)
              log s <- log s + gain (c - max(0, o)),  s <= 1, and s >= s_10 sqrt(10 / t) after round 10
              log f <- log f + gain c,  1 <= f <= 2;  c = cos(D, M),  M <- 0.9 M + 0.1 D
    shipped   the mean of all x_t with weights t^8

A delta longer than L, twice the median length of the last round, is shortened to L^2 / |D_i|. o is
the overshoot: the slope of the loss along a client's path, at its end and on fresh batches,
relative to the slope at its beginning. gain is 1 until rounds disagree, then 1/2. m and v are
corrected for their start at 0. s_10 is s when T is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import exp, inf, isfinite, log
from statistics import fmean, median

import torch
from torch import Tensor

Batch = tuple[Tensor, ...]
Loss = Callable[[Tensor, Batch], Tensor]
Clients = Callable[[int], Iterable[tuple[float, Sequence[Batch]]]]

SEARCHED = 10  # rounds with a line search


@dataclass
class Server:
    """Six vectors and a few numbers."""

    x: Tensor
    mean: Tensor  # what is shipped
    p: Tensor
    m: Tensor
    v: Tensor
    M: Tensor  # the usual delta
    start_norm: float
    round: int = 0
    T: float = 0.0  # 0: not measured yet
    logs: list[float] = field(default_factory=list)  # log T of the searched rounds
    log_s: float = 0.0
    log_f: float = 0.0
    held_log_s: float = -inf  # when T is held
    gain: float = 1.0
    weight: float = 0.0  # of all deltas in m
    usual: float = 0.0  # median length of the last round's deltas; 0: not known yet


@dataclass
class Reply:
    """What a client sends: two vectors and two numbers."""

    delta: Tensor
    squares: Tensor  # mean of g^2, divided by its mean coordinate
    log_step: float | None  # log(1.4 / curvature); None: not measured
    overshoot: float


def rounds(loss: Loss, x: Tensor, clients: Clients, number: int) -> Iterator[Server]:
    """The server after every round; `mean` is the model to ship."""
    zero = torch.zeros_like(x)
    server = Server(x, x, torch.ones_like(x), zero, zero, zero, float(x.norm()))
    for t in range(number):
        absorb(server, [(w, client(loss, server, batches)) for w, batches in clients(t)])
        yield server


def client(loss: Loss, server: Server, batches: Sequence[Batch]) -> Reply:
    """K local steps from the server's model."""
    x = server.x
    scales = 1 / (server.p.sqrt() + 0.1)
    squares, first = torch.zeros_like(x), torch.zeros_like(x)
    guess = slopes = curved = ahead = behind = 0.0
    for k, batch in enumerate(batches):
        f, g = value_and_gradient(loss, x, batch)
        squares = squares + g * g
        if k == 0:
            first = g
        elif k % 4 == 0:
            ahead += float(g @ (x - server.x))
            behind -= float(first @ (x - server.x))
        d = -g * scales
        slope = float(g @ d)
        eta = server.T
        if server.round < SEARCHED:
            if slope == 0:
                continue
            trial = first_trial(server, d, f, slope, guess)
            eta, step = line_search(loss, x, batch, d, f, slope, trial)
            if eta > 0:
                guess = step
                slopes -= slope
                curved -= slope / step
        x = x + exp(server.log_s) * eta * d
    log_step = None
    if slopes > 0:
        # the first round climbs: its last step is the one that counts
        log_step = log(guess if server.T == 0 else slopes / curved)
    overshoot = max(-1.0, min(1.0, ahead / behind)) if behind > 0 else 0.0
    return Reply(x - server.x, squares / squares.mean().clamp(min=1e-30), log_step, overshoot)


def first_trial(server: Server, d: Tensor, f: float, slope: float, guess: float) -> float:
    """T, or the client's own guess; a first round climbs from a hundredth of Polyak's step."""
    if server.T > 0:
        return min(guess or server.T, server.T)
    longest = 0.1 * server.start_norm / float(d.norm()) if server.start_norm > 0 else inf
    return min(guess or 0.01 * f / -slope, longest)


def line_search(
    loss: Loss, x: Tensor, batch: Batch, d: Tensor, f: float, slope: float, eta: float
) -> tuple[float, float]:
    """The step that Armijo accepts, 0 after 20 trials, and 1.4 / curvature of its parabola."""
    for _ in range(20):
        value = float(loss(x + eta * d, batch).detach())
        quotient = (value - f) / (eta * slope) if isfinite(value) else -inf
        if value <= f + 1e-4 * eta * slope:
            # a short step says little about steps three times as long
            return eta, min(0.7 * eta / max(1 - quotient, 1e-30), 3 * eta)
        eta *= min(0.9, max(0.1, 0.5 / (1 - quotient)))
    return 0.0, 0.0


def absorb(server: Server, cohort: Sequence[tuple[float, Reply]]) -> None:
    """The server's step."""
    server.round += 1
    t, total = server.round, sum(w for w, _ in cohort)
    delta = mean_delta(server, cohort, total)
    squares = sum(w / total * reply.squares for w, reply in cohort)
    old = 0.9 if t > 1 else 0.0
    server.p = old * server.p + (1 - old) * squares / squares.mean().clamp(min=1e-30)
    measure_step(server, cohort)
    set_pace(server, delta, sum(w / total * reply.overshoot for w, reply in cohort))

    b = min(0.9, t / (t + 20))
    server.m = b * server.m + (1 - b) * delta
    server.weight = b * server.weight + (1 - b)
    server.v = 0.9 * server.v + 0.1 * delta * delta
    r = (server.v / (1 - 0.9**t)).sqrt()
    u = (server.m / server.weight) / (r + r.square().mean().sqrt()).clamp(min=1e-30)
    length = exp(server.log_f) * (1 + b / 1.8) * float(r.norm())
    server.x = server.x + length / max(float(u.norm()), 1e-30) * u
    server.mean = server.mean + 9 / (8 + t) * (server.x - server.mean)


def mean_delta(server: Server, cohort: Sequence[tuple[float, Reply]], total: float) -> Tensor:
    """The mean of the deltas, none of them much longer than is usual."""
    lengths = [float(reply.delta.norm()) for _, reply in cohort]
    limit = 2 * (server.usual or median(lengths))
    mean = torch.zeros_like(server.x)
    for (w, reply), length in zip(cohort, lengths, strict=True):
        share = min(1.0, limit / max(length, 1e-30)) ** (2 if server.usual else 1)
        mean = mean + w / total * share * reply.delta
    server.usual = median(lengths)
    return mean


def measure_step(server: Server, cohort: Sequence[tuple[float, Reply]]) -> None:
    """T follows the clients' limits, at most doubling in a round; then it is held."""
    told = [(w, reply.log_step) for w, reply in cohort if reply.log_step is not None]
    if server.round > SEARCHED or not told:
        return
    measured = sum(w * step for w, step in told) / sum(w for w, _ in told)
    server.logs.append(measured)
    server.T = min(exp(measured), 2 * server.T or inf)
    if server.round == SEARCHED:
        server.T = 0.67 * exp(fmean(server.logs[4:]))


def set_pace(server: Server, delta: Tensor, overshoot: float) -> None:
    """Longer server steps where rounds agree, shorter client steps where they do not."""
    lengths = float(delta.norm()) * float(server.M.norm())
    agreement = float(delta @ server.M) / lengths if lengths > 0 else 0.0
    if lengths > 0 and agreement <= 0:
        server.gain = 0.5
    server.M = 0.9 * server.M + 0.1 * delta
    change = server.gain * (agreement - max(0.0, overshoot))
    # no faster than 1 / sqrt(t): an average over rounds then still moves
    least = server.held_log_s + log(SEARCHED / server.round) / 2
    server.log_s = min(0.0, max(least, server.log_s + change))
    server.log_f = min(log(2), max(0.0, server.log_f + server.gain * agreement))
    if server.round == SEARCHED:
        server.held_log_s = server.log_s


def value_and_gradient(loss: Loss, x: Tensor, batch: Batch) -> tuple[float, Tensor]:
    """The loss of a batch and its gradient."""
    x = x.detach().requires_grad_()
    value = loss(x, batch)
    (gradient,) = torch.autograd.grad(value, x)
    return float(value.detach()), gradient
