"""Flat minima: clients look up their gradient a little uphill."""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.local.last_round import Behind
from fedstep.local.sharpness import Sharpness
from fedstep.zoo.averaging import fedavg
from fedstep.zoo.client_momentum import fedcm
from fedstep.zoo.corrected import feddyn


def fedsam(step: float = 0.1, rho: float = 0.1, server_step: float = 1.0) -> Algorithm:
    """FedAvg whose clients minimise sharpness too.

        g = grad f_i(x + rho grad f_i(x) / |grad f_i(x)|);  x <- x - step g
        x_{t+1} = x_t + server_step * D

    Paper: Qu et al., Generalized Federated Learning via Sharpness Aware Minimization, ICML 2022.
    Special case: rho 0 is FedAvg.
    """
    return _uphill(fedavg(step, server_step), rho)


def mofedsam(
    step: float = 0.1,
    rho: float = 0.1,
    alpha: float = 0.1,
    server_step: float = 1.0,
) -> Algorithm:
    """FedSAM whose clients follow the last round's direction as in FedCM.

        x <- x - step (alpha g + (1 - alpha) M),  g as in fedsam, M as in fedcm

    Paper: Qu et al., Generalized Federated Learning via Sharpness Aware Minimization, ICML 2022.
    Special case: alpha 1 is FedSAM, rho 0 is FedCM.
    """
    return _uphill(fedcm(step, alpha, server_step), rho)


def fedspeed(
    step: float = 0.1,
    rho: float = 0.1,
    penalty: float = 0.1,
    server_step: float = 1.0,
) -> Algorithm:
    """FedDyn whose clients look up their gradient uphill.

        client i descends f_i(x) - <h_i, x> + penalty/2 |x - x_t|^2 with f_i's gradient as in fedsam
        h_i and the server as in feddyn with alpha = penalty

    As the program of the authors' comparison runs it: the gradient is the one uphill alone, where
    the paper mixes it with the one at x.
    Paper: Sun et al., FedSpeed: Larger Local Interval, Less Communication Round, and Higher
    Generalization Accuracy, ICLR 2023.
    Special case: rho 0 is FedDyn.
    """
    return _uphill(feddyn(step, penalty, server_step), rho)


def fedlesam(step: float = 0.1, rho: float = 0.1, server_step: float = 1.0) -> Algorithm:
    """FedSAM with the last round's way, reversed, for the way uphill: one gradient a step.

        g = grad f_i(x - rho D_{t-1} / |D_{t-1}|);  x <- x - step g;  x_{t+1} = x_t + server_step * D

    D_{t-1} is 0 in the first round. The paper takes it from the model that the client got last; here
    it is the server's last step, as in the authors' program.
    Paper: Fan et al., Locally Estimated Global Perturbations are Better than Local Perturbations for
    Federated Sharpness-aware Minimization, ICML 2024.
    Special case: rho 0 is FedAvg.
    """
    plain = fedavg(step, server_step)
    return replace(plain, local=replace(plain.local, move=Behind(rho)))


def _uphill(algorithm: Algorithm, rho: float) -> Algorithm:
    # the oracle alone: which function is descended, and how far, stays as it was
    return replace(algorithm, local=replace(algorithm.local, oracle=Sharpness(rho)))
