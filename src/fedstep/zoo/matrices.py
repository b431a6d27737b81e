"""Clients that step by orthogonal matrices."""

from __future__ import annotations

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.local.directions import Chain, Clip
from fedstep.local.last_round import Alongside
from fedstep.local.moves import Move, Straight
from fedstep.local.orthogonal import Orthogonal
from fedstep.local.solver import LocalSolver
from fedstep.server.rules import Step
from fedstep.steps.fixed import Constant


def local_muon(
    step: float = 0.03,  # this and the next three: the program's for ResNet-18
    rate: float = 0.5,
    weight_decay: float = 0.01,
    clip: float = 10.0,
    beta: float = 0.95,
    server_step: float = 1.0,
) -> Algorithm:
    """Clients run Muon, made anew every round; the server averages.

        m <- beta m + (1 - beta) g;  u = beta m + (1 - beta) g                  of every matrix
        W <- (1 - step rate weight_decay) W - step rate f O(u),  f = sqrt(max(1, rows / columns))
        x_{t+1} = x_t + server_step * D

    O is five steps of Newton and Schulz, which bring all singular values near 1. Parameters with
    one axis take AdamW's steps (0.9, 0.95). Gradients are clipped to the norm `clip` first.
    Paper: Liu et al., FedMuon: Accelerating Federated Learning with Matrix Orthogonalization, 2025
    (the baseline); Jordan et al., Muon, 2024 (the optimiser).
    Special case: one client and one round: Muon.
    """
    muon = Orthogonal(beta, rate, weight_decay)
    return Algorithm(_client(step, muon, clip, Straight()), Step(server_step))


def fedmuon(
    step: float = 0.03,  # this and all below: the program's for ResNet-18
    rate: float = 0.5,
    align: float = 0.5,
    weight_decay: float = 0.01,
    clip: float = 10.0,
    beta: float = 0.98,
    server_step: float = 1.0,
) -> Algorithm:
    """Muon on the clients, whose momentum goes on where the others' ended, pulled along together.

        a step is 1 - align of local_muon's, and align D_{t-1} / K on top
        m begins a round at the mean of the clients' m at the end of the round before
        x_{t+1} = x_t + server_step * D

    K is the number of local steps, D_{t-1} the mean delta of the round before, 0 at first.
    Paper: Liu et al., FedMuon: Accelerating Federated Learning with Matrix Orthogonalization, 2025.
    Special case: align 0 is Local Muon with a momentum that is carried over.
    """
    # the part would name the share of the step that is left to it
    if step < 0:
        raise InputError(f"fedmuon(step={step}): the step must be 0 or more")
    muon = Orthogonal(beta, rate, weight_decay, carried=True)
    # what goes along with the others is taken from the client's own steps
    local = _client((1 - align) * step, muon, clip, Alongside(align))
    return Algorithm(local, Step(server_step))


def _client(
    step: float,
    muon: Orthogonal,
    clip: float,
    move: Move,
) -> LocalSolver:
    direction = Chain((Clip(clip), muon))
    return LocalSolver(Constant(step), direction=direction, move=move)
