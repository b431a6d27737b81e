"""Clients that minimise instead of descending: exact proximal points and Newton steps."""

from __future__ import annotations

from math import inf

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.corrections.consensus import Consensus
from fedstep.corrections.envelope import Envelope
from fedstep.local.newton import Newton
from fedstep.local.terms import Proximal
from fedstep.server.rules import Step
from fedstep.server.step_sizes import Diversity, EnvelopePolyak
from fedstep.steps.fixed import Constant


def fedexprox(
    gamma: float = 1.0,  # larger: longer steps and harder systems
    server_step: float = 1.0,
    tolerance: float = 1e-10,  # a choice of this library
) -> Algorithm:
    """Clients send exact proximal points, the server goes beyond their mean by a constant factor.

        p_i = argmin_z f_i(z) + |z - x_t|^2 / (2 gamma);  D_i = p_i - x_t
        x_{t+1} = x_t + server_step * D

    f_i is the loss over the round's samples: give the plan one epoch. The best constant is 1 /
    (gamma L_gamma), L_gamma the smoothness of the mean Moreau envelope.
    Paper: Li, Acharya and Richtarik, The Power of Extrapolation in Federated Learning, NeurIPS
    2024.
    Special case: server_step 1 is FedProx with mu = 1 / gamma, solved exactly.
    """
    return Algorithm(_point(gamma, tolerance), Step(server_step))


def fedexprox_grads(
    gamma: float = 1.0, max_server_step: float = inf, tolerance: float = 1e-10
) -> Algorithm:
    """FedExProx whose server step is the diversity of the deltas (GraDS).

        D_i as in fedexprox;  eta_g = mean_i |D_i|^2 / |D|^2;  x_{t+1} = x_t + eta_g * D

    Paper: Li, Acharya and Richtarik, The Power of Extrapolation in Federated Learning, NeurIPS
    2024.
    Special case: equal deltas give eta_g 1, FedProx solved exactly.
    """
    return Algorithm(_point(gamma, tolerance), Diversity(max_server_step))


def fedexprox_stops(
    gamma: float = 1.0,
    bound: float = 0.0,  # the mean of inf f_i: 0 for losses that can be fitted
    max_server_step: float = inf,
    tolerance: float = 1e-10,
) -> Algorithm:
    """FedExProx whose server step is Polyak's for the mean Moreau envelope (StoPS).

        M_i = f_i(p_i) + |D_i|^2 / (2 gamma);  eta_g = gamma * (mean_i M_i - bound) / |D|^2
        x_{t+1} = x_t + eta_g * D

    D_i and p_i as in fedexprox; bound is the mean of inf f_i, 0 for losses that can be fitted. The
    clients send M_i too.
    Paper: Li, Acharya and Richtarik, The Power of Extrapolation in Federated Learning, NeurIPS
    2024.
    Special case: one client with equal curvature in all directions: half of the way to the minimum
    in every round.
    """
    return Algorithm(
        _point(gamma, tolerance), EnvelopePolyak(gamma, bound, max_server_step), Envelope()
    )


def fednew(
    alpha: float = 1.0,  # a choice of this library, as rho: the paper tunes both per problem
    rho: float = 0.1,
    server_step: float = 1.0,
) -> Algorithm:
    """One Newton step a round, whose direction the clients agree on by one pass of ADMM.

        y_i = (H_i + (alpha + rho) I)^{-1} (g_i - l_i + rho y);  y <- mean_i y_i
        x_{t+1} = x_t - server_step * y
        l_i <- l_i + rho (y_i - y)

    g_i, H_i: gradient and Hessian of f_i at x_t over the round's samples (give the plan one epoch);
    y and l_i begin at 0. The system is solved by conjugate gradients; no Hessian is formed or sent.
    Paper: Elgabli et al., FedNew: A Communication-Efficient and Privacy-Preserving Newton-Type
    Method, ICML 2022.
    Special case: one client, rho 0: Newton's method with Levenberg's alpha.
    """
    client = Newton(
        Constant(1.0),
        terms=(Proximal(alpha),),
        steps=1,
    )
    return Algorithm(client, Step(server_step), Consensus(rho))


def _point(gamma: float, tolerance: float) -> Newton:
    """The client of FedExProx."""
    if not gamma > 0:
        raise InputError(f"fedexprox(gamma={gamma}): gamma must be positive")
    # Newton, not many small steps: the server's rules are made for points that are exact
    return Newton(terms=(Proximal(1 / gamma),), tolerance=tolerance)
