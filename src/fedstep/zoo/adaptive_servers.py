"""Adaptive optimisers on the server."""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.server.moments import Adaptive, Average, Peak, SecondMoment, Signed, Sum
from fedstep.server.program_variants import FlowerAdam
from fedstep.zoo.averaging import fedavg


def fedadagrad(
    step: float = 0.1,
    server_step: float = 0.1,  # to be tuned, as step is: the paper's grids have half decades
    beta: float = 0.0,  # the paper's for Adagrad
    tau: float = 1e-3,  # the paper's; larger is more like FedAvg
) -> Algorithm:
    """Adagrad on the server.

        m <- beta m + (1 - beta) D;  v <- v + D^2
        x_{t+1} = x_t + server_step * m / (sqrt(v) + tau)

    v begins at tau^2.
    Paper: Reddi et al., Adaptive Federated Optimization, ICLR 2021.
    Special case: one round moves every coordinate by about server_step.
    """
    return _adaptive(step, Sum(), server_step, beta, tau)


def fedadam(
    step: float = 0.1,
    server_step: float = 0.1,
    beta: float = 0.9,  # the paper's, as beta2 and tau
    beta2: float = 0.99,
    tau: float = 1e-3,
) -> Algorithm:
    """Adam on the server, without bias correction.

        m <- beta m + (1 - beta) D;  v <- beta2 v + (1 - beta2) D^2
        x_{t+1} = x_t + server_step * m / (sqrt(v) + tau)

    v begins at tau^2.
    Paper: Reddi et al., Adaptive Federated Optimization, ICLR 2021.
    Special case: beta 0, beta2 1 and a large tau: FedAvg with server step server_step / (2 tau).
    """
    return _adaptive(step, Average(beta2), server_step, beta, tau)


def fedyogi(
    step: float = 0.1,
    server_step: float = 0.1,
    beta: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
) -> Algorithm:
    """Yogi on the server: Adam whose second moment grows slowly.

        m <- beta m + (1 - beta) D;  v <- v - (1 - beta2) D^2 sign(v - D^2);  x_{t+1} as in fedadam

    v begins at tau^2.
    Paper: Reddi et al., Adaptive Federated Optimization, ICLR 2021.
    Special case: beta 0, beta2 1 and a large tau: FedAvg with server step server_step / (2 tau).
    """
    return _adaptive(step, Signed(beta2), server_step, beta, tau)


def fedams(
    step: float = 0.1,
    server_step: float = 0.1,
    beta: float = 0.9,
    beta2: float = 0.99,
    eps: float = 1e-8,  # the program's, as beta and beta2
    floor: bool = True,
) -> Algorithm:
    """AMSGrad on the server: the largest second moment so far counts.

        m <- beta m + (1 - beta) D;  v <- beta2 v + (1 - beta2) D^2
        floor (option 1):     p <- max(p, v, eps);  x_{t+1} = x_t + server_step * m / sqrt(p)
        no floor (option 2):  p <- max(p, v);  x_{t+1} = x_t + server_step * m / (sqrt(p) + eps)

    v and p begin at 0.
    Paper: Wang, Lin and Chen, Communication-Efficient Adaptive Federated Learning, ICML 2022.
    Special case: beta 0, a large eps and a floor: FedAvg with server step server_step / sqrt(eps).
    """
    rule = Peak(
        server_step,
        beta=beta,
        beta2=beta2,
        eps=eps,
        floor=floor,
    )
    return replace(fedavg(step), server=rule)


def fedadagrad_flower(
    step: float = 0.1, server_step: float = 0.1, beta: float = 0.0, tau: float = 1e-3
) -> Algorithm:
    """FedAdagrad as flwr 1.41 computes it: v begins at 0.

        m <- beta m + (1 - beta) D;  v <- v + D^2
        x_{t+1} = x_t + server_step * m / (sqrt(v) + tau)

    Paper: none; the program of Flower.
    Special case: FedAdagrad where v has grown far beyond tau^2.
    """
    # without tau^2 at the start the first round divides by |D| alone
    return _adaptive(step, Sum(), server_step, beta, tau, start=0.0)


def fedadam_flower(
    step: float = 0.1,
    server_step: float = 0.1,
    beta: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,  # Flower's own is 1e-9
) -> Algorithm:
    """FedAdam as flwr 1.41 computes it: v begins at 0, bias corrected with the exponent t + 1.

        m, v as in fedadam
        x_{t+1} = x_t + server_step * sqrt(1 - beta2^(t+1)) / (1 - beta^(t+1)) * m / (sqrt(v) + tau)

    t = 1 in the first round.
    Paper: none; the program of Flower.
    Special case: beta 0, beta2 0: m / (sqrt(v) + tau) = D / (|D| + tau), the first step of
    fedadagrad_flower in every round.
    """
    return replace(fedavg(step), server=FlowerAdam(server_step, beta, beta2, tau))


def fedyogi_flower(
    step: float = 0.1,
    server_step: float = 0.1,
    beta: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
) -> Algorithm:
    """FedYogi as flwr 1.41 computes it: v begins at 0.

        m, v and x_{t+1} as in fedyogi

    Paper: none; the program of Flower.
    Special case: FedYogi where v has grown far beyond tau^2.
    """
    return _adaptive(step, Signed(beta2), server_step, beta, tau, start=0.0)


def _adaptive(
    step: float,
    moment: SecondMoment,
    server_step: float,
    beta: float,
    tau: float,
    start: float | None = None,
) -> Algorithm:
    rule = Adaptive(
        moment,
        step=server_step,
        beta=beta,
        tau=tau,
        start=start,
    )
    return replace(fedavg(step), server=rule)
