"""Clients with the step rules of other line searches and of Polyak's step, under plain averaging."""

from __future__ import annotations

from fedstep.algorithm import Algorithm
from fedstep.local.solver import LocalSolver
from fedstep.server.rules import Step
from fedstep.steps.cadence import Settled
from fedstep.steps.conditions import Armijo
from fedstep.steps.polyak import DecreasingPolyak, Polyak
from fedstep.steps.references import Smoothed, ZhangHager
from fedstep.steps.resets import Grow, PolyakGuess, Reset, Restart
from fedstep.steps.search import LineSearch


def fedsps(
    c: float = 0.5,
    max_step: float = 1.0,
    lower: float = 0.0,
    reset: Reset = Restart(),
    server_step: float = 1.0,
) -> Algorithm:
    """Clients take the stochastic Polyak step of the mini-batch at hand: one gradient a step, no trials.

        eta = min(max_step, (f(x) - lower) / (c |g|^2));  x_{t+1} = x_t + server_step * D

    lower is a lower bound of the batch losses, 0 for the usual ones; max_step is the paper's gamma_b. With reset = Grow() the
    steps also grow by no more than a factor a pass over the client's data (the smoothed variant of Loizou et al., 2021).
    Paper: Mukherjee, Loizou and Stich, Locally Adaptive Federated Learning, TMLR 2024.
    Special case: max_step so small that it is always taken: FedAvg with that step.
    """
    return Algorithm(LocalSolver(Polyak(c, max_step, reset, lower=lower)), Step(server_step))


def feddecsps(
    c: float = 0.5, max_step: float = 1.0, lower: float = 0.0, server_step: float = 1.0
) -> Algorithm:
    """FedSPS whose steps decrease, so that it converges without interpolation too.

        eta_k = min((f(x) - lower) / |g|^2, c_{k-1} eta_{k-1}) / c_k,  c_k = c sqrt(k + 1);  x_{t+1} = x_t + server_step * D

    k counts the client's own steps over all its rounds; c_{-1} = c and eta_{-1} = max_step, the paper's gamma_b.
    Paper: Mukherjee, Loizou and Stich, Locally Adaptive Federated Learning, TMLR 2024.
    Special case: one local step in one round: FedSPS, with c and max_step.
    """
    return Algorithm(LocalSolver(DecreasingPolyak(c, max_step, lower)), Step(server_step))


def fedponos(
    c: float = 0.5,
    c_polyak: float = 0.1,
    max_step: float = 10.0,
    shrink: float = 0.5,
    xi: float = 1.0,
    lower: float = 0.0,
    min_step: float = 1e-6,
    remember: bool = True,
    carry: bool = False,
    server_step: float = 1.0,
) -> Algorithm:
    """Clients search from a Polyak step on, and let the loss rise up to the mean of the losses so far.

        eta_0 = clip(shrink^l (f(x) - lower) / (c_polyak |g|^2 + 1e-8), min_step, max_step);  l <- max(l + trials - 2, 0)
        eta = the first of eta_0, shrink eta_0, ... with f(x - eta g) <= max(C, f(x)) - c eta |g|^2
        x_{t+1} = x_t + server_step * D

    C is the mean of the batch losses of the round so far (over all rounds if carry) with weights xi^age, l counts past cuts.
    Paper: Galli, Rauhut and Schmidt, Don't be so Monotone: Relaxing Stochastic Line Search, NeurIPS 2023.
    Special case: xi 0 and a constant first guess: FedSLS.
    """
    guess = PolyakGuess(c_polyak, lower, min_step, remember)
    search = LineSearch(
        Armijo(c), guess, ZhangHager(xi), max_step=max_step, shrink=shrink, carry=carry
    )
    return Algorithm(LocalSolver(search), Step(server_step))


def fedsalsa(
    c: float = 0.3,
    beta: float = 0.99,
    max_step: float = 10.0,
    shrink: float = 0.8,
    grow: float = 1.1,
    rarest: int = 10,
    carry: bool = True,
    server_step: float = 1.0,
) -> Algorithm:
    """Clients compare running means of gain and steepness, and search only as often as their steps change.

        eta = the first of eta_0, shrink eta_0, ... with h >= c eta s;  eta_0 = min(grow * last, max_step)
        h = beta h_old + (1 - beta) (f(x) - f(x - eta g));  s = beta s_old + (1 - beta) |g|^2
        x_{t+1} = x_t + server_step * D

    Between searches, at most `rarest` steps apart, eta_0 is taken untested. Steps and means outlive the round (carry).
    Paper: Kenneweg et al., No learning rates needed: Introducing SALSA - Stable Armijo Line Search Adaptation, IJCNN 2024.
    Special case: beta 0 and rarest 1: FedSLS with Grow(grow, per=1).
    """
    search = LineSearch(
        Armijo(c),
        Grow(grow, per=1),
        Smoothed(beta),
        max_step=max_step,
        shrink=shrink,
        carry=carry,
        cadence=Settled(rarest),
    )
    return Algorithm(LocalSolver(search), Step(server_step))
