"""Deltas as gradients: each divided by the way its client has gone."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.types import Context
from fedstep.core.vec import Vec, scale
from fedstep.corrections.base import Correction, Finished
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class PseudoGradient(Correction):
    """Send (x - anchor) / sum of the step sizes: minus the mean gradient along the client's way.

    The server's step then is one of gradient descent, whatever the plan and the clients' steps. A
    client that took no step sends 0.
    """

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        way = trace.length
        # 1 / 0 is not used, and has no gradient to spoil
        inverse = torch.where(way > 0, 1 / way, torch.zeros_like(way))
        return Finished(scale(inverse, x - ctx.anchor))
