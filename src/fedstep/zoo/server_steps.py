"""FedAvg clients under servers that find their step from the deltas of earlier rounds."""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.corrections.pseudogradient import PseudoGradient
from fedstep.local.solver import LocalSolver
from fedstep.server.readouts import Polynomial
from fedstep.server.rules import Step
from fedstep.server.step_sizes import DistanceOverSum, Hypergradient
from fedstep.steps.tuned import Tuned
from fedstep.zoo.averaging import fedavg


def feddog_server(
    step: float = 0.1,
    start: float | None = None,
) -> Algorithm:
    """The server's step is the distance gone over the root of the deltas' summed squares (DoG).

        eta_g = max(r, max_{s<=t} |x_s - x_0|) / sqrt(sum_{s<=t} |D_s|^2)
        x_{t+1} = x_t + eta_g * D

    r is start * (1 + |x_0|), or |D_0| without a start: then the first round is FedAvg. A mean of
    the iterates in which x_t counts by about t^8 is evaluated and shipped.
    Paper: Ivgi, Hinder and Carmon, DoG is SGD's Best Friend: A Parameter-Free Dynamic Step Size
    Schedule, ICML 2023.
    Special case: one local step in every round: DoG on the mean gradient.
    """
    # the last iterate of a step that never shrinks is noisy: DoG's theory is of an average
    return replace(
        fedavg(step),
        server=DistanceOverSum(start),
        readout=Polynomial(),
    )


def fedhyper_g(
    step: float = 0.1,
    low: float = -0.8,  # the bounds of the authors' program; the paper states others
    high: float = 4.0,
) -> Algorithm:
    """The server's step grows while successive deltas agree, and shrinks when they do not.

        a <- clip(a + <D_t, D_{t-1}>, low, high);  x_{t+1} = x_t + (1 + a) * D_t

    a begins at 0. The bounds are those of the authors' program.
    Paper: Wang et al., FedHyper: A Universal and Robust Learning Rate Scheduler for Federated
    Learning, ICLR 2024.
    Special case: orthogonal deltas, or low = high = 0: FedAvg.
    """
    return replace(fedavg(step), server=Hypergradient(low, high))


def fedhyper_gm(
    step: float = 0.1,
    low: float = -0.2,  # the authors' program, as high and beta
    high: float = 4.0,
    beta: float = 0.9,
) -> Algorithm:
    """FedHyper-G with a momentum, as the authors' program has it.

        a <- clip(a + <D_t, m>, low, high);  m <- beta m + D_t;  x_{t+1} = x_t + D_t + a * m

    a and m begin at 0. The bounds are those of the authors' program.
    Paper: Wang et al., FedHyper: A Universal and Robust Learning Rate Scheduler for Federated
    Learning, ICLR 2024.
    Special case: beta 0 is FedHyper-G; low = high = 0: FedAvg.
    """
    return replace(fedavg(step), server=Hypergradient(low, high, beta))


def fedhyper_sl(
    step: float = 0.1,
    low: float = 0.1,  # the program's bounds 0.001 and 0.1 around its step 0.01
    high: float = 10.0,
) -> Algorithm:
    """The server tunes the clients' common step by the agreement of successive deltas.

        eta = step * clip(1 + a, low, high);  a <- a + <D_t, D_{t-1}>;  x_{t+1} = x_t + D_t

    a begins at 0. The program's bounds 0.001 and 0.1 for a step of 0.01 are the factors 0.1 and 10.
    Paper: Wang et al., FedHyper: A Universal and Robust Learning Rate Scheduler for Federated
    Learning, ICLR 2024.
    Special case: orthogonal deltas, or low = high = 1: FedAvg.
    """
    return Algorithm(LocalSolver(Tuned(step, low, high)))


def nastya(step: float = 0.1, server_step: float = 0.5) -> Algorithm:
    """Small steps through shuffled samples on the clients, a large one along their mean after it.

        G_i = (x_t - x_{t,K}^i) / (K step);  x_{t+1} = x_t - server_step * mean_i G_i

    The paper's K is the number of batches of one epoch: give the plan one epoch of shuffled
    samples. G_i is divided by the sum of the steps that the client took, so that it is right for
    any plan.
    Paper: Malinovsky, Mishchenko and Richtarik, Server-Side Stepsizes and Sampling Without
    Replacement Provably Help, 2022.
    Special case: equal K for all clients: FedAvg with server step server_step / (K step).
    """
    return replace(
        fedavg(step),
        server=Step(server_step),
        correction=PseudoGradient(),
    )
