"""Steps computed without trials: Polyak's, Frank-Wolfe, secants, distances."""

from __future__ import annotations

from fedstep.algorithm import Algorithm
from fedstep.local.moves import Decayed
from fedstep.local.solver import LocalSolver
from fedstep.local.terms import L2, Term
from fedstep.server.rules import Step
from fedstep.steps.distance import DistanceOverGradients
from fedstep.steps.frank_wolfe import FrankWolfe
from fedstep.steps.polyak import DecreasingPolyak, Polyak
from fedstep.steps.resets import Reset, Restart
from fedstep.steps.secant import SecantStep


def fedsps(
    c: float = 0.5,
    max_step: float = 1.0,
    lower: float = 0.0,
    reset: Reset = Restart(),
    server_step: float = 1.0,
) -> Algorithm:
    """Clients take the stochastic Polyak step of the mini-batch: one gradient a step, no trials.

        eta = min(max_step, (f(x) - lower) / (c |g|^2));  x_{t+1} = x_t + server_step * D

    lower is a lower bound of the batch losses, 0 for the usual ones; max_step is the paper's
    gamma_b. With reset = Grow() the steps also grow by no more than a factor a pass over the
    client's data (the smoothed variant of Loizou et al., 2021).
    Paper: Mukherjee, Loizou and Stich, Locally Adaptive Federated Learning, TMLR 2024.
    Special case: max_step so small that it is always taken: FedAvg with that step.
    """
    return Algorithm(LocalSolver(Polyak(c, max_step, reset, lower=lower)), Step(server_step))


def feddecsps(
    c: float = 0.5, max_step: float = 1.0, lower: float = 0.0, server_step: float = 1.0
) -> Algorithm:
    """FedSPS whose steps decrease, so that it converges without interpolation too.

        eta_k = min((f(x) - lower) / |g|^2, c_{k-1} eta_{k-1}) / c_k,  c_k = c sqrt(k + 1)
        x_{t+1} = x_t + server_step * D

    k counts the client's own steps over all its rounds; c_{-1} = c and eta_{-1} = max_step, the
    paper's gamma_b.
    Paper: Mukherjee, Loizou and Stich, Locally Adaptive Federated Learning, TMLR 2024.
    Special case: one local step in one round: FedSPS, with c and max_step.
    """
    return Algorithm(LocalSolver(DecreasingPolyak(c, max_step, lower)), Step(server_step))


def feddfw(
    step: float = 0.1,  # to be tuned by powers of 10
    weight_decay: float = 0.0,
    momentum: float = 0.0,  # the program's default; its experiments use 0.9
    eps: float = 1e-5,
    server_step: float = 1.0,
) -> Algorithm:
    """Clients take Frank-Wolfe steps on the dual of a proximal problem, at most as long as `step`.

        r = weight_decay x;  gamma = clip((f - step <g, r>) / (step |g|^2 + eps), 0, 1)
        z <- momentum z - step gamma (g + r);  x <- x - step (r + gamma g) + momentum z

    Made for a hinge loss: give the model one. Weight decay is not part of f.
    Paper: Berrada et al., Deep Frank-Wolfe for Neural Network Optimization, ICLR 2019.
    Special case: no weight decay, no momentum, a small step: FedAvg (gamma is 1).
    """
    # the decay goes with the longest step, the gradient with the step found: two different rates
    move = Decayed(step, weight_decay, momentum)
    return Algorithm(LocalSolver(FrankWolfe(step, weight_decay, eps), move=move), Step(server_step))


def delta_sgd(
    start: float = 0.2,  # this and the next three: the paper's values
    gamma: float = 2.0,
    delta: float = 0.1,
    theta: float = 1.0,
    server_step: float = 1.0,
) -> Algorithm:
    """Clients adapt their step to the local smoothness they meet, anew every round.

        eta_k = min(gamma |x_k - x_{k-1}| / (2 |g_k - g_{k-1}|),
                    sqrt(1 + delta theta_{k-1}) eta_{k-1})
        theta_k = eta_k / eta_{k-1};  eta_0 = start, theta_0 = theta
        x_{t+1} = x_t + server_step * D

    Paper: Kim et al., Adaptive Federated Learning with Auto-Tuned Clients, ICLR 2024.
    Special case: delta 0 and a large gamma: FedAvg with step `start`.
    """
    return Algorithm(LocalSolver(SecantStep(start, gamma, delta, theta)), Step(server_step))


def feddog(
    reach: float = 1e-6,  # the program's; the authors advise 1e-4 with batch normalisation
    scale: float = 1.0,
    eps: float = 1e-8,
    first: float | None = None,
    weight_decay: float = 0.0,
    carry: bool = True,
    server_step: float = 1.0,
) -> Algorithm:
    """Clients step by the distance they have come over the gradients they have seen.

        eta_k = scale * max_{i <= k} |x_i - x_0| / sqrt(eps + sum_{i <= k} |g_i|^2)
        x_{t+1} = x_t + server_step * D

    The distance begins at reach (1 + |x_0|). x_0, the distance and the sum are kept from round to
    round. The authors evaluate an average of the iterates: give a readout.
    Paper: Ivgi et al., DoG is SGD's Best Friend: A Parameter-Free Dynamic Step Size Schedule, ICML
    2023.
    Special case: one client and one round: DoG.
    """
    terms: tuple[Term, ...] = ()
    if weight_decay:
        # a term, not a direction: the sum of |g|^2 in the step has to see it
        terms = (L2(weight_decay),)
    return Algorithm(
        LocalSolver(DistanceOverGradients(reach, scale, eps, first, carry), terms=terms),
        Step(server_step),
    )
