"""Methods of the FedExP program that sum over the rounds: extrapolation, control variates."""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.authors.averaging import fedavg
from fedstep.authors.extrapolation import extrapolated
from fedstep.corrections.control_variates import MeanControl
from fedstep.server.program_variants import ProgramExtrapolate
from fedstep.server.readouts import LastTwo


def fedavgm_exp(
    step: float = 0.316,
    eps: float = 0.1,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """FedAvgM-Exp of the FedExP program.

    A running sum in the extrapolation, and no momentum because of a misspelt name.
    """
    clients = fedavg(step, decay, weight_decay, clip)
    return replace(
        clients,
        server=ProgramExtrapolate(eps),  # without HeavyBall: the slip is what was published
        readout=LastTwo(),
    )


def scaffold(
    step: float = 0.01,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
    server_step: float = 1.0,
) -> Algorithm:
    """SCAFFOLD of the FedExP program.

    Option II, c weighted by samples over all clients, the tilted gradient clipped.
    """
    plain = fedavg(
        step=step,
        decay=decay,
        weight_decay=weight_decay,
        clip=clip,
        server_step=server_step,
    )
    return replace(plain, correction=MeanControl())


def scaffold_exp(
    step: float = 0.01,
    eps: float = 1e-3,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """SCAFFOLD clients with extrapolation, of the FedExP program."""
    clients = scaffold(step, decay, weight_decay, clip)
    return extrapolated(clients, eps)
