"""Clients that remember: a momentum from the server, Adam's moments, or where they ended last."""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.corrections.client_momentum import ClientMomentum
from fedstep.corrections.relaxed_start import RelaxedStart
from fedstep.local.moves import Decayed
from fedstep.local.preconditioned import Adam, Preconditioned
from fedstep.local.solver import LocalSolver
from fedstep.server.rules import Step
from fedstep.steps.fixed import Constant
from fedstep.zoo.averaging import fedavg


def fedcm(
    step: float = 0.1,
    alpha: float = 0.1,  # as in the published comparisons
    server_step: float = 1.0,
) -> Algorithm:
    """Clients mix the last round's direction into every local step.

        x <- x - step (alpha g + (1 - alpha) M);  M = -mean_i D_i / (K step) of the round before
        x_{t+1} = x_t + server_step * D

    M begins at 0. It is divided by what the clients walked, so that any step rule serves.
    Paper: Xu et al., FedCM: Federated Learning with Client-level Momentum, 2021.
    Special case: alpha 1 is FedAvg.
    """
    # alpha of the step is the gradient's; the correction adds the rest
    plain = fedavg(alpha * step, server_step)
    return replace(plain, correction=ClientMomentum(alpha))


def fedinit(step: float = 0.1, beta: float = 0.1, server_step: float = 1.0) -> Algorithm:
    """FedAvg whose clients begin beyond the server's model, away from where they ended last.

        client i begins at x_t + beta (x_t - x_i), x_i its last end;  x_{t+1} = x_t + server_step * D

    D_i is the way from x_t. A client's first round begins at x_t.
    Paper: Sun et al., Understanding How Consistency Works in Federated Learning via Stage-wise
    Relaxed Initialization, NeurIPS 2023.
    Special case: beta 0 is FedAvg.
    """
    return replace(fedavg(step, server_step), correction=RelaxedStart(beta))


def local_adamw(
    step: float = 1e-3,
    beta: float = 0.9,
    beta2: float = 0.999,
    weight_decay: float = 0.01,
    eps: float = 1e-8,
    server_step: float = 1.0,
) -> Algorithm:
    """Clients run AdamW, made anew every round; the server averages.

        m <- beta m + (1 - beta) g;  v <- beta2 v + (1 - beta2) g^2;  m', v' corrected for bias
        x <- (1 - step weight_decay) x - step m' / (sqrt(v') + eps)
        x_{t+1} = x_t + server_step * D

    Paper: Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019 (the optimiser).
    Special case: one client and one round: AdamW.
    """
    direction = Preconditioned(Adam(beta2, beta), eps)
    # decoupled: the decay is no part of the gradient that the moments see
    move = Decayed(rate=step, weight=weight_decay)
    client = LocalSolver(
        Constant(step),
        direction=direction,
        move=move,
    )
    return Algorithm(client, Step(server_step))
