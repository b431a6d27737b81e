"""Plain averaging: FedAvg and FedProx, with a momentum or an extrapolated step on the server."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from fedstep.algorithm import Algorithm
from fedstep.local.solver import LocalSolver
from fedstep.local.terms import Proximal
from fedstep.server.readouts import LastTwo
from fedstep.server.rules import Extrapolate, HeavyBall, Step
from fedstep.steps.fixed import Constant


def fedavg(
    step: float = 0.1,  # to be tuned: the paper does for every task
    server_step: float = 1.0,  # the paper's
) -> Algorithm:
    """Average the clients' models.

        x_{t+1} = x_t + server_step * D

    Paper: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized
    Data, AISTATS 2017.
    Special case: one client, server_step 1: SGD.
    """
    return Algorithm(LocalSolver(Constant(step)), Step(server_step))


def fedavgm(
    step: float = 0.1,
    server_step: float = 1.0,
    beta: float = 0.9,  # as in the published programs
) -> Algorithm:
    """FedAvg with a heavy ball on the server.

        m <- beta m + D;  x_{t+1} = x_t + server_step * m

    Paper: Hsu et al., Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification, 2019.
    Special case: beta 0 is FedAvg.
    """
    return replace(fedavg(step), server=HeavyBall(server_step, beta))


def fedprox(
    step: float = 0.1,
    mu: float = 0.01,  # to be tuned with the step
    server_step: float = 1.0,
) -> Algorithm:
    """Clients stay near the model they were sent.

        client i descends f_i(x) + mu/2 |x - x_t|^2;  x_{t+1} = x_t + server_step * D

    Paper: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020.
    Special case: mu 0 is FedAvg.
    """
    return Algorithm(LocalSolver(Constant(step), terms=(Proximal(mu),)), Step(server_step))


def fedexp(
    step: float = 0.1,
    eps: float = 1e-3,  # the unit is a squared length: 0.1 forces eta_g = 1 on a small model
    max_server_step: float = inf,
) -> Algorithm:
    """FedAvg with a server step found by extrapolation.

        eta_g = max(1, sum_i |D_i|^2 / (2 |S| (|D|^2 + eps)));  x_{t+1} = x_t + eta_g * D

    The mean of the last two iterates is evaluated and shipped.
    Paper: Jhunjhunwala et al., FedExP: Speeding Up Federated Averaging via Extrapolation, ICLR
    2023.
    Special case: equal deltas give eta_g 1, FedAvg.
    """
    return replace(
        fedavg(step),
        server=Extrapolate(eps, max_server_step),
        readout=LastTwo(),
    )


def fedprox_exp(
    step: float = 0.1, mu: float = 0.01, eps: float = 1e-3, max_server_step: float = inf
) -> Algorithm:
    """FedProx clients under the FedExP server: what the paper's programs plot as FedExProx.

        client i descends f_i(x) + mu/2 |x - x_t|^2;  x_{t+1} = x_t + eta_g * D
            with eta_g as in fedexp

    Paper: the programs of Jhunjhunwala et al. (ICLR 2023) and of Painless Federated Learning.
    Special case: mu 0 is FedExP.
    """
    return replace(
        fedprox(step, mu),
        server=Extrapolate(eps, max_server_step),
        readout=LastTwo(),
    )
