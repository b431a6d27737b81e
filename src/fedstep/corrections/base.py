"""The neutral correction: plain averaging."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.types import Context
from fedstep.core.vec import State, Vec
from fedstep.local.terms import Term
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Correction:
    """Both halves of what talks across the network, in one place; every method here is the neutral element.

    A method that remembers or sends more overrides only what differs.
    """

    def terms(self) -> tuple[Term, ...]:
        """What it adds to the client's function."""
        return ()

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        """What the server keeps and sends besides the model."""
        return {}

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        """What a client keeps between its rounds."""
        return {}

    def start(self, ctx: Context) -> Vec:
        """Where the client begins."""
        return ctx.anchor

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> tuple[Vec, dict[str, Tensor], dict[str, Tensor]]:
        """Delta, memory and message of a client that has arrived at x."""
        return x - ctx.anchor, {}, {}

    def fold(self, shared: State, agg: Aggregate, fraction: float) -> tuple[Vec, dict[str, Tensor]]:
        """Server direction and new shared state; fraction is the part of all clients that took part."""
        return agg.mean(agg.delta), dict(shared)
