"""How a client moves: momentum, extragradients, preconditioned, without gradients, asynchronous."""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.local.moves import Extragradient, Inertia, Move, Nesterov, Straight
from fedstep.local.oracles import TwoPoint
from fedstep.local.preconditioned import Adagrad, Moment, Preconditioned
from fedstep.local.solver import LocalSolver
from fedstep.local.stale import Stale
from fedstep.local.storm import Storm
from fedstep.server.rules import Step
from fedstep.steps.fixed import Constant
from fedstep.steps.lipschitz import LipschitzSearch
from fedstep.steps.resets import Grow, Reset
from fedstep.steps.search import FIRST_STEP, LineSearch
from fedstep.zoo.armijo import fedsls
from fedstep.zoo.averaging import fedavg


def fedsls_momentum(
    c: float = 0.1,
    max_step: float = FIRST_STEP,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0),
    beta: float = 0.6,
    server_step: float = 1.0,
) -> Algorithm:
    """FedSLS clients with Polyak's momentum behind the accepted step.

        x_{k+1} = x_k - eta_k g_k + beta (x_k - x_{k-1}), eta_k as in fedsls
        x_{t+1} = x_t + server_step * D

    Paper: Vaswani et al., Painless Stochastic Gradient, NeurIPS 2019 (the Armijo search with
    Polyak's acceleration).
    Special case: beta 0 is FedSLS.
    """
    clients = fedsls(c, max_step, shrink, reset, server_step)
    return replace(clients, local=replace(clients.local, move=Inertia(beta)))


def fedsls_nesterov(
    c: float = 0.1,
    max_step: float = FIRST_STEP,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0),
    beta: float | None = None,
    server_step: float = 1.0,
) -> Algorithm:
    """FedSLS clients with Nesterov's acceleration behind the accepted step.

        y_{k+1} = x_k - eta_k g_k;  x_{k+1} = y_{k+1} + beta_k (y_{k+1} - y_k), eta_k as in fedsls

    beta None takes beta_k from Nesterov's sequence, as the SLS program computes it: the first step
    of a round then stays where it is.
    Paper: Vaswani et al., Painless Stochastic Gradient, NeurIPS 2019 (the Armijo search with
    Nesterov's acceleration).
    Special case: beta 0 is FedSLS.
    """
    clients = fedsls(c, max_step, shrink, reset, server_step)
    return replace(clients, local=replace(clients.local, move=Nesterov(beta)))


def fedseg(
    c: float = 0.9,
    max_step: float = FIRST_STEP,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0),
    server_step: float = 1.0,
) -> Algorithm:
    """Clients take extragradient steps, as long as the gradient changes little over them.

        eta = the first of eta_0, shrink eta_0, ...
            with (eta / c)^2 |g(x - eta g) - g|^2 <= |eta g|^2
        x <- x - eta g(x - eta g);  x_{t+1} = x_t + server_step * D

    All gradients of a step are of the same batch.
    Paper: Vaswani et al., Painless Stochastic Gradient, NeurIPS 2019 (SEG with Lipschitz
    line-search).
    Special case: one client, server_step 1: the stochastic extragradient method of the paper.
    """
    # only the grid of trials is taken from this search: the condition is on gradients, not values
    grid = LineSearch(
        reset=reset,
        max_step=max_step,
        shrink=shrink,
    )
    return Algorithm(LocalSolver(LipschitzSearch(c, grid), move=Extragradient()), Step(server_step))


def fedadasls(
    c: float = 0.1,  # the program's, as shrink and eps
    max_step: float = FIRST_STEP,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0),
    moment: Moment = Adagrad(),
    beta: float = 0.0,
    eps: float = 1e-8,
    plain: bool = False,
    server_step: float = 1.0,
) -> Algorithm:
    """Clients search along a preconditioned gradient.

        eta = the first of eta_0, shrink eta_0, ... with f(x - eta P g) <= f(x) - c eta <g, P g>,
        P = 1 / (sqrt(v) + eps)

    `moment` makes v (Adagrad, RMSProp, Adam, AMSGrad); Adam and AMSGrad search without momentum and
    travel with it. beta adds Nesterov's constant momentum behind the step (the program's heavy
    ball). `plain` searches along g and scales the step taken.
    Paper: Vaswani et al., Adaptive Gradient Methods Converge Faster with Over-Parameterization 2020
    (AdaSLS).
    Special case: a very large eps and max_step: FedSLS with its steps divided by eps.
    """
    search = fedsls(c, max_step, shrink, reset, server_step)
    move: Move = Straight()
    if beta:
        move = Nesterov(beta)
    direction = Preconditioned(moment, eps, plain)
    client = replace(
        search.local,
        direction=direction,
        move=move,
    )
    return replace(search, local=client)


def fedzo(
    step: float = 0.1, directions: int = 5, radius: float = 1e-3, server_step: float = 1.0
) -> Algorithm:
    """FedAvg without gradients: clients estimate the slope from values along random directions.

        g = dim / (directions radius) * sum_j (f(x + radius u_j) - f(x)) u_j,
        u_j uniform on the unit sphere

    directions 1 is the estimate of FedRZO (Qiu et al., 2023), whose smoothing parameter is the
    radius.
    Paper: Fang et al., Communication-Efficient Stochastic Zeroth-Order Optimization for Federated
    Learning, IEEE TSP 2022.
    Special case: many directions and a small radius: FedAvg.
    """
    return Algorithm(
        LocalSolver(Constant(step), oracle=TwoPoint(directions, radius)), Step(server_step)
    )


def fedlocalasync(
    step: float = 0.1,
    workers: int = 4,  # a choice of this library, as are uniform ages
    torn: bool = True,
    server_step: float = 1.0,
) -> Algorithm:
    """FedAvg whose clients run several workers on one shared model without locks.

        x_{k+1} = x_k - step g(v_k),  v_k[j] = x_{k - a}[j]
            with ages a in 0 ... workers - 1, drawn for every coordinate j

    A repeatable simulation with bounded staleness: ages are keyed by the step's seed. `torn` False
    draws one age a step.
    Paper: Chatterjee, Kungurtsev and Alistarh, Federated SGD with Local Asynchrony, ICDCS 2024 (its
    local half).
    Special case: one worker is FedAvg, to the bit.
    """
    clients = fedavg(step, server_step)
    return replace(clients, local=replace(clients.local, move=Stale(workers, torn)))


def fafed(
    step: float = 0.1,
    a: float = 0.1,  # constant in time; the paper's theory lets it fall
    beta: float = 0.9,
    rho: float = 0.1,  # a choice of this library
    server_step: float = 1.0,
) -> Algorithm:
    """Clients go along a variance-reduced estimate, scaled by a second moment that they share.

        x' = x - step m / A,  A = sqrt(mean_i v_i of the last round) + rho
        m <- g(x') + (1 - a) (m - g(x)),  v <- beta v + (1 - beta) g(x')^2
        the server averages x, m and v

    g(x) and g(x') are of the same batch. The constants are this library's choice, not the paper's.
    Paper: Wu et al., Faster Adaptive Federated Learning, AAAI 2023.
    Special case: a 1, beta 1, rho 1, one client and whole batches: gradient descent.
    """
    return Algorithm(LocalSolver(Constant(step), move=Storm(a, beta, rho)), Step(server_step))
