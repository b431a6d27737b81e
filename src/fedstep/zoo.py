"""The named methods: what each paper prints, in the slots of this library.

Notation: x_t the server's model, S the round's clients, D_i = x_{t,K}^i - x_t the delta of client i, D = mean_i D_i.
Every client runs K local steps x <- x - eta g on mini-batches. `fedstep.authors` has the variants of the published programs.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from fedstep.algorithm import Algorithm
from fedstep.local.solver import LocalSolver
from fedstep.local.terms import Proximal
from fedstep.server.adaptive import Adaptive, Average, SecondMoment, Signed, Sum
from fedstep.server.readouts import LastTwo
from fedstep.server.rules import Extrapolate, HeavyBall, Step
from fedstep.steps.conditions import Armijo
from fedstep.steps.fixed import Constant
from fedstep.steps.resets import Grow, Reset
from fedstep.steps.search import LineSearch


def fedavg(step: float = 0.1, server_step: float = 1.0) -> Algorithm:
    """Average the clients' models.

        x_{t+1} = x_t + server_step * D

    Paper: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017.
    Special case: one client, server_step 1: SGD.
    """
    return Algorithm(LocalSolver(Constant(step)), Step(server_step))


def fedavgm(step: float = 0.1, server_step: float = 1.0, beta: float = 0.9) -> Algorithm:
    """FedAvg with a heavy ball on the server.

        m <- beta m + D;  x_{t+1} = x_t + server_step * m

    Paper: Hsu et al., Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification, 2019.
    Special case: beta 0 is FedAvg.
    """
    return replace(fedavg(step), server=HeavyBall(server_step, beta))


def fedprox(step: float = 0.1, mu: float = 0.01, server_step: float = 1.0) -> Algorithm:
    """Clients stay near the model they were sent.

        client i descends f_i(x) + mu/2 |x - x_t|^2;  x_{t+1} = x_t + server_step * D

    Paper: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020.
    Special case: mu 0 is FedAvg.
    """
    return Algorithm(LocalSolver(Constant(step), terms=(Proximal(mu),)), Step(server_step))


def fedexp(step: float = 0.1, eps: float = 1e-3, max_server_step: float = inf) -> Algorithm:
    """FedAvg with a server step found by extrapolation.

        eta_g = max(1, sum_i |D_i|^2 / (2 |S| (|D|^2 + eps)));  x_{t+1} = x_t + eta_g * D

    The mean of the last two iterates is evaluated and shipped.
    Paper: Jhunjhunwala et al., FedExP: Speeding Up Federated Averaging via Extrapolation, ICLR 2023.
    Special case: equal deltas give eta_g 1, FedAvg.
    """
    return replace(fedavg(step), server=Extrapolate(eps, max_server_step), readout=LastTwo())


def fedprox_exp(step: float = 0.1, mu: float = 0.01, eps: float = 1e-3, max_server_step: float = inf) -> Algorithm:
    """FedProx clients under the FedExP server: what the paper's programs plot as FedExProx.

        client i descends f_i(x) + mu/2 |x - x_t|^2;  x_{t+1} = x_t + eta_g * D with eta_g as in fedexp

    Paper: the programs of Jhunjhunwala et al. (ICLR 2023) and of Painless Federated Learning.
    Special case: mu 0 is FedExP.
    """
    return replace(fedprox(step, mu), server=Extrapolate(eps, max_server_step), readout=LastTwo())


def fedadagrad(step: float = 0.1, server_step: float = 0.1, beta: float = 0.0, tau: float = 1e-3) -> Algorithm:
    """Adagrad on the server.

        m <- beta m + (1 - beta) D;  v <- v + D^2;  x_{t+1} = x_t + server_step * m / (sqrt(v) + tau)

    v begins at tau^2.
    Paper: Reddi et al., Adaptive Federated Optimization, ICLR 2021.
    Special case: one round moves every coordinate by about server_step.
    """
    return _adaptive(step, Sum(), server_step, beta, tau)


def fedadam(
    step: float = 0.1, server_step: float = 0.1, beta: float = 0.9, beta2: float = 0.99, tau: float = 1e-3
) -> Algorithm:
    """Adam on the server, without bias correction.

        m <- beta m + (1 - beta) D;  v <- beta2 v + (1 - beta2) D^2;  x_{t+1} = x_t + server_step * m / (sqrt(v) + tau)

    v begins at tau^2.
    Paper: Reddi et al., Adaptive Federated Optimization, ICLR 2021.
    Special case: beta 0, beta2 1 and a large tau: FedAvg with server step server_step / (2 tau).
    """
    return _adaptive(step, Average(beta2), server_step, beta, tau)


def fedyogi(
    step: float = 0.1, server_step: float = 0.1, beta: float = 0.9, beta2: float = 0.99, tau: float = 1e-3
) -> Algorithm:
    """Yogi on the server: Adam whose second moment grows slowly.

        m <- beta m + (1 - beta) D;  v <- v - (1 - beta2) D^2 sign(v - D^2);  x_{t+1} as in fedadam

    v begins at tau^2.
    Paper: Reddi et al., Adaptive Federated Optimization, ICLR 2021.
    Special case: beta 0, beta2 1 and a large tau: FedAvg with server step server_step / (2 tau).
    """
    return _adaptive(step, Signed(beta2), server_step, beta, tau)


def fedsls(
    c: float = 0.1,
    max_step: float = 10.0,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0),
    server_step: float = 1.0,
    carry: bool = False,
    largest: bool = False,
) -> Algorithm:
    """Clients find every step by an Armijo line search on the mini-batch at hand. No learning rate.

        eta = the first of eta_0, shrink eta_0, shrink^2 eta_0, ... with f(x - eta g) <= f(x) - c eta |g|^2
        x_{t+1} = x_t + server_step * D

    f, g and the trials see the same batch. eta_0 is max_step in the first step of a round, then what `reset` makes of the
    last accepted step: Keep, Restart or Grow.
    Paper: Painless Federated Learning: An Interplay of Line-search and Extrapolation (FedSLS, Algorithm 4).
    Special case: a max_step that is always accepted: FedAvg with that step.
    """
    search = LineSearch(Armijo(c), reset, max_step=max_step, shrink=shrink, carry=carry, largest=largest)
    return Algorithm(LocalSolver(search), Step(server_step))


def fedexpsls(
    c: float = 0.1,
    max_step: float = 10.0,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0),
    eps: float = 1e-3,
    max_server_step: float = inf,
    carry: bool = False,
    largest: bool = False,
) -> Algorithm:
    """FedSLS clients under the FedExP server: no learning rate on either side.

        clients as in fedsls;  eta_g = max(1, sum_i |D_i|^2 / (2 |S| (|D|^2 + eps)));  x_{t+1} = x_t + eta_g * D

    The mean of the last two iterates is evaluated and shipped.
    Paper: Painless Federated Learning: An Interplay of Line-search and Extrapolation (FedExpSLS, Algorithm 5).
    Special case: a very large eps gives eta_g 1, FedSLS.
    """
    clients = fedsls(c, max_step, shrink, reset, carry=carry, largest=largest)
    return replace(clients, server=Extrapolate(eps, max_server_step), readout=LastTwo())


def _adaptive(step: float, moment: SecondMoment, server_step: float, beta: float, tau: float) -> Algorithm:
    return replace(fedavg(step), server=Adaptive(moment, server_step, beta, tau))
