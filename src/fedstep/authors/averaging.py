"""Clients that run SGD, under the servers of both programs."""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.authors.extrapolation import extrapolated
from fedstep.local.directions import Chain, Clip, Decay
from fedstep.local.solver import LocalSolver
from fedstep.local.terms import Proximal
from fedstep.server.program_variants import ProgramAdagrad, ProgramAdam
from fedstep.server.rules import HeavyBall, Step
from fedstep.server.weighting import BySamples
from fedstep.steps.fixed import Schedule


def fedavg(
    step: float = 0.01,
    decay: float = 1.0,  # factor of the step a round, also before the first
    weight_decay: float = 1e-4,
    clip: float = 10.0,  # largest norm of a gradient
    server_step: float = 1.0,
) -> Algorithm:
    """FedAvg of the programs: clipped SGD with weight decay, weighted mean."""
    # in this order: the decay is added to the clipped gradient, and is not clipped itself
    direction = Chain((Clip(clip), Decay(weight_decay)))
    # the program decays before the first round, not after it
    schedule = Schedule(step * decay, decay)
    client = LocalSolver(schedule, direction)
    # zoo.fedavg counts all clients the same, as the papers print it; the programs do not
    return Algorithm(client, Step(server_step), weighting=BySamples())


def fedavgm(
    step: float = 0.316,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
    server_step: float = 1.0,
) -> Algorithm:
    """FedAvgM of the FedExP program."""
    clients = fedavg(step, decay, weight_decay, clip)
    server = HeavyBall(server_step, 0.9)  # its momentum is no setting of the program
    return replace(clients, server=server)


def fedprox(
    step: float = 0.01,
    mu: float = 0.1,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """FedProx of the programs: the proximal term is part of the clipped gradient."""
    plain = fedavg(step, decay, weight_decay, clip)
    # a term, not a correction: its gradient passes through the clipping like that of the loss
    local = replace(plain.local, terms=(Proximal(mu),))
    return replace(plain, local=local)


def fedexp(
    step: float = 0.01,
    eps: float = 1e-3,  # a client: it is multiplied by their number
    decay: float = 1.0,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """FedExP of the programs."""
    clients = fedavg(step, decay, weight_decay, clip)
    return extrapolated(clients, eps)


def fedprox_exp(
    step: float = 0.01,
    mu: float = 0.1,
    eps: float = 0.0,  # as in fedexp
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """FedProx clients with extrapolation: the curves labelled FedExProx in the paper."""
    clients = fedprox(
        step=step,
        mu=mu,
        decay=decay,
        weight_decay=weight_decay,
        clip=clip,
    )
    return extrapolated(clients, eps)


def fedadagrad(
    step: float = 0.1,
    server_step: float = 0.316,
    eps: float = 0.0316,  # as it is: no number of clients in it
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """FedAdagrad of the FedExP program: eps inside the root."""
    clients = fedavg(step, decay, weight_decay, clip)
    server = ProgramAdagrad(server_step, eps)
    return replace(clients, server=server)


def fedadam(
    step: float = 0.1,
    server_step: float = 0.316,
    eps: float = 0.0316,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """FedAdam of the FedExP program: second moment of the momentum, constant bias correction."""
    clients = fedavg(step, decay, weight_decay, clip)
    server = ProgramAdam(server_step, eps)
    return replace(clients, server=server)
