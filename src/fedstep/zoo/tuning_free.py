"""Methods by others that ask for no step size, or adapt the one they are given."""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.local.moves import Inertia, Move, Straight
from fedstep.local.solver import LocalSolver
from fedstep.server.relative import RelativeDiversity
from fedstep.server.rules import Step
from fedstep.steps.agreement import AgreementStep
from fedstep.steps.harmonic import HarmonicPolyak
from fedstep.zoo.averaging import fedavg


def fathom(
    step: float = 0.1,
    rate: float = 0.01,  # this and the next two: the flags of the authors' program
    memory: float = 0.5,
    max_step: float = 0.5,
    server_step: float = 1.0,
) -> Algorithm:
    """The clients' common step grows while successive rounds agree, and shrinks when they do not.

        h = cos(D_t, M_{t-1});  step <- step * exp(rate h);  M_t = memory M_{t-1} + (1 - memory) D_t
        clients step by min(step, max_step);  x_{t+1} = x_t + server_step * D_t

    M begins at 0. The paper's rules for the number of epochs and the batch size are left out: here
    both belong to the plan of a run, not to the method.
    Paper: Kan, Federated Hypergradient Descent, 2022 (FATHOM); constants of the program.
    Special case: rate 0 is FedAvg.
    """
    return Algorithm(LocalSolver(AgreementStep(step, rate, memory, max_step)), Step(server_step))


def fedglad(
    step: float = 0.1,
    server_step: float = 1.0,
    memory: float = 0.9,  # the program's, as the bound
    bound: float = 0.02,
) -> Algorithm:
    """The server goes further in rounds whose clients disagree more than usual.

        G_t = sqrt(mean_i |D_i|^2 / |D|^2);  eta_g = server_step * clip(G_t / B_t, 1 -+ bound t)
        B_0 = B_1 = G_0, then B_{t+1} = memory B_t + (1 - memory) G_t;  x_{t+1} = x_t + eta_g * D

    t = 0, 1, ...: the first round is FedAvg. The program also has a variant for every group of
    parameters, which is left out.
    Paper: Chen et al., When to Trust Aggregated Gradients: Addressing Negative Client Sampling in
    Federated Learning, 2023 (FedGLAD).
    Special case: bound 0 is FedAvg.
    """
    return replace(fedavg(step), server=RelativeDiversity(server_step, memory, bound))


def fedngn(cap: float = 1.0, momentum: float = 0.0, server_step: float = 1.0) -> Algorithm:
    """Clients step by a smooth compromise between a cap and Polyak's step.

        eta = cap / (1 + cap |g|^2 / (2 f(x)));  x <- x - (1 - momentum) eta g + momentum (x - x_-)

    x_- is the client's point before, forgotten at the end of a round. Needs a loss that is never
    negative. With a momentum it is NGN-M.
    Paper: Orvieto and Xiao, An Adaptive Stochastic Gradient Method with Non-negative Gauss-Newton
    Stepsizes, 2024.
    Special case: a small cap and no momentum: FedAvg with that step.
    """
    move: Move = Straight()
    if momentum:
        move = Inertia(momentum, damped=True)
    return Algorithm(LocalSolver(HarmonicPolyak(cap), move=move), Step(server_step))
