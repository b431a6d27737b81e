"""The extrapolating server that several methods of the programs share."""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.server.readouts import LastTwo
from fedstep.server.rules import Extrapolate

EPS_DECAY = 0.998**2  # eps is beside squares, which fall with the square of the steps' decay


def extrapolated(clients: Algorithm, eps: float) -> Algorithm:
    """The same clients under FedExP's server, evaluated at the mean of the last two iterates."""
    rule = Extrapolate(
        eps,
        decay=EPS_DECAY,
        eps_per_client=True,  # eps times their number, which the paper's formula has not
    )
    return replace(
        clients,
        server=rule,
        readout=LastTwo(),
    )
