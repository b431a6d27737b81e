"""Compressed deltas. Any method takes a codec: `replace(fedexpsls(), codec=TopK(0.01))`."""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.server.codecs import Codec, ErrorFeedback, ScaledSign
from fedstep.zoo.adaptive_servers import fedams


def fedcams(
    step: float = 0.1,
    server_step: float = 0.1,
    beta: float = 0.9,
    beta2: float = 0.99,
    eps: float = 1e-8,
    floor: bool = True,
    # a bit a coordinate; what it loses is sent later
    compressor: Codec = ScaledSign(),
) -> Algorithm:
    """FedAMS whose clients send compressed deltas and keep what was left out.

        send C(D_i + e_i);  e_i <- D_i + e_i - C(D_i + e_i);  the server as in fedams

    e_i begins at 0 and stays as it is while client i does not take part. C is ScaledSign() or
    TopK().
    Paper: Wang, Lin and Chen, Communication-Efficient Adaptive Federated Learning, ICML 2022.
    Special case: compressor TopK(1.0) is FedAMS.
    """
    return replace(
        fedams(step, server_step, beta, beta2, eps, floor), codec=ErrorFeedback(compressor)
    )
