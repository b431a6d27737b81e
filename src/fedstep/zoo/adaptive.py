"""Adaptive optimisers on the server."""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.server.adaptive import Adaptive, Average, SecondMoment, Signed, Sum
from fedstep.zoo.averaging import fedavg


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


def _adaptive(step: float, moment: SecondMoment, server_step: float, beta: float, tau: float) -> Algorithm:
    return replace(fedavg(step), server=Adaptive(moment, server_step, beta, tau))
