"""The neutral correction: plain averaging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.types import Context
from fedstep.core.vec import Scalar, State, Vec
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

    probes: ClassVar[bool] = False  # whether a round begins with every client's gradient at the server's point

    @property
    def asks_others(self) -> bool:
        """Whether the mean gradient is that of another sample of clients."""
        return False

    def probe(self, ctx: Context, g: Vec) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Memory and message of a client whose loss over all its samples has the gradient g at the anchor."""
        return {}, {}

    def gather(self, shared: State, agg: Aggregate) -> dict[str, Tensor]:
        """What is sent with the model after the probe; `agg.delta` is the weighted sum of the gradients."""
        return dict(shared)

    def start(self, ctx: Context) -> Vec:
        """Where the client begins."""
        return ctx.anchor

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> tuple[Vec, dict[str, Tensor], dict[str, Tensor]]:
        """Delta, memory and message of a client that has arrived at x."""
        return x - ctx.anchor, {}, {}

    def fold(self, shared: State, agg: Aggregate, fraction: float) -> tuple[Vec, dict[str, Tensor]]:
        """Server direction and new shared state; fraction is the part of all clients, by weight, that took part."""
        return agg.mean(agg.delta), dict(shared)

    def spread(self, shared: State, agg: Aggregate) -> Scalar:
        """Weighted sum over clients of |their part of the direction|^2, given the shared state after `fold`.

        Extrapolation compares its mean with |direction|^2.
        """
        return agg.norm_sq
