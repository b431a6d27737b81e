"""One step and one metric for all clients, measured by them: nothing to set."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from fedstep.algorithm import Algorithm
from fedstep.corrections.trusted_control import TrustedControl
from fedstep.local.conditioned import Conditioned
from fedstep.local.solver import LocalSolver
from fedstep.server.onward import Onward
from fedstep.server.readouts import Polynomial
from fedstep.server.rules import HeavyBall
from fedstep.server.steady import Steady
from fedstep.steps.common import CommonStep
from fedstep.steps.pace import Pace


def fedpace(
    aim: float = 0.3,
    gain: float = 0.5,
    memory: float = 0.9,
    tau: float = 0.1,
    beta: float = 0.5,
    most: float = 4.0,
    average: float = 8.0,
) -> Algorithm:
    """Clients share a step and a scale for every coordinate that they measure together.

        clients: x <- x - s eta g / (sqrt(p) + tau);  eta <= T accepted by Armijo
        T <- geometric mean of the steps that the clients' curvatures allow;  p: the mean of g^2
        s = exp(a);  a <- min(0, a + gain (c_t - max(0, o_t)))
        M_t = memory M_{t-1} + (1 - memory) D_t
        m_t = beta m_{t-1} + D_t;  x_{t+1} = x_t + exp(b) sqrt(1 - beta) m_t
        b <- clip(b + gain cos(D_t, m_{t-1}), 0, log min(most, mean |D_i|^2 / |D_t|^2))

    The curvature is that of parabolas through accepted trials, 2 (1 - aim) steps of which reach T;
    one step in eight is tried, and those where the loss is steep. p is divided by its mean. o_t is
    the slope of the loss along the clients' ways, at their ends and on batches that had no part in
    them, as a share of the slope at their beginnings; c_t is
    the cosine of D_t and M_{t-1}, excused below 0 where T has fallen since clients went at full
    pace (`Pace`). A D_t that is more than three times as long as they usually are counts as three
    times. A mean of the x_t, whose weights grow as t^average, is evaluated and shipped. Nothing has
    a unit, so nothing has to be set. Twice the numbers of fedavg each way.
    Paper: none; a composition of this library (docs/pace.md has what was tried and what failed).
    Special case: beta 0, most 1 and a very large tau: averaging at a common step.
    """
    client = LocalSolver(
        CommonStep(aim, pace=Pace(gain, memory)),
        direction=Conditioned(tau),
    )
    # checked before its root is taken
    momentum = HeavyBall(beta=beta)
    momentum = replace(momentum, step=sqrt(1 - beta))
    return Algorithm(
        client,
        Onward(Steady(momentum), most, gain),
        readout=Polynomial(average),
    )


def fedpace_recall(memory: float = 0.9) -> Algorithm:
    """fedpace whose clients remember their gradients, as far as these foretell anything.

        clients descend f_i(x) + r <c - c_i, x> as in fedpace;  c_i: the mean gradient of their
        last path;  c: the mean of the c_i
        r = sum <new c_i - c, c_i - c> / sum |c_i - c|^2, within [0, 1]

    Sums over clients and rounds, the weights of old rounds fade by `memory`. Clients pull each
    their own way; what of that stays the same from one of their rounds to the next is taken away.
    For clients that come back: those that come once remember nothing, and this is fedpace. One
    vector more than fedpace each way, and one that every client keeps.
    Paper: none; the controls are those of SCAFFOLD (Karimireddy et al., ICML 2020).
    Special case: the first round is that of fedpace.
    """
    return replace(fedpace(), correction=TrustedControl(memory))
