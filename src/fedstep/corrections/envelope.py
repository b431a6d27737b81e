"""Clients that send the value of their best compromise."""

from __future__ import annotations

from dataclasses import dataclass

from fedstep.core.types import Context
from fedstep.core.vec import Vec
from fedstep.corrections.base import Correction, Finished
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Envelope(Correction):
    """Send the value of phi at the last point where it was evaluated, as the message "envelope".

    For a client that minimises phi(z) = f_i(z) + |z - x|^2 / (2 gamma) it is the Moreau envelope
    M_i(x), up to the solver's tolerance, and never below it.
    """

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        # the value before the last step: one at x itself would cost a pass more
        return Finished(x - ctx.anchor, message={"envelope": trace.last_loss})
