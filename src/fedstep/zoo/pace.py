"""One step for all clients, measured by them: nothing to set."""

from __future__ import annotations

from fedstep.algorithm import Algorithm
from fedstep.local.solver import LocalSolver
from fedstep.server.onward import Grafted, Onward
from fedstep.server.readouts import Polynomial
from fedstep.steps.common import CommonStep
from fedstep.steps.pace import Pace


def fedpace(
    aim: float = 0.3,
    gain: float = 0.5,
    memory: float = 0.9,
    most: float = 4.0,
    tau: float = 0.1,
    average: float = 8.0,
) -> Algorithm:
    """Clients share a step that they measure together; nothing is set, nobody dominates.

        clients: steps s * eta, eta <= T accepted by Armijo;  T <- 1 / mean curvature of the cohort
        s = exp(a);  a <- min(0, a + gain cos(D_t, M_{t-1}));  M_t = memory M_{t-1} + (1 - memory) D_t
        x_{t+1} = x_t + exp(b) |D| u / |u|;  b <- clip(b + gain cos(D_t, u_{t-1}), 0, log most)
        u = D / (sqrt(v) + tau rms(sqrt v)), v the mean of D^2;  a weighted mean of the x_t is shipped

    The curvature is that of parabolas through accepted trials, 2 (1 - aim) steps of which reach T.
    The weight of x_t in the mean that is evaluated and shipped grows as t^average.
    Paper: none; a composition of this library (docs/pace.md has what was tried and what failed).
    Special case: on one quadratic with equal curvature everywhere T = 2 (1 - aim) / L, s = 1.
    """
    step = CommonStep(aim, pace=Pace(gain, memory))
    server = Onward(Grafted(tau=tau), most, gain)
    return Algorithm(LocalSolver(step), server, readout=Polynomial(average))
