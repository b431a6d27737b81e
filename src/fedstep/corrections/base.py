"""The neutral correction: plain averaging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.types import Batch, Context, Forward, Output
from fedstep.core.vec import Scalar, State, Vec
from fedstep.local.terms import Term
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Correction:
    """Both halves of what talks across the network, in one place; every method here is the neutral element.

    A method that remembers or sends more overrides only what differs.
    """

    withheld: ClassVar[frozenset[str]] = (
        frozenset()
    )  # what of the shared state is the server's alone and not sent
    embeds: ClassVar[bool] = False  # whether its terms need the model's embeddings
    forwards: ClassVar[int] = 0  # passes that `prepare` makes in a local step
    backwards: ClassVar[int] = 0

    def suited(self, model: Forward, targets: Tensor) -> Correction:
        """The correction for this model and targets of this kind; refuses what it cannot work with."""
        return self

    def terms(self) -> tuple[Term, ...]:
        """What it adds to the client's function."""
        return ()

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        """What the server keeps and sends besides the model."""
        return {}

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        """What a client keeps between its rounds."""
        return {}

    probes: ClassVar[bool] = (
        False  # whether a round begins with every client's gradient at the server's point
    )
    silent: ClassVar[bool] = False  # whether those gradients stay with the clients for now

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

    def prepare(self, ctx: Context, batch: Batch) -> dict[str, Tensor]:
        """What the terms find in the client's memory during one local step, its trials included."""
        return {}

    def tally(self, x: Vec) -> dict[str, Tensor]:
        """Zeros, for what is summed over a client's local steps and sent, for x of shape `(..., d)`."""
        return {}

    def count(self, out: Output, batch: Batch) -> dict[str, Tensor]:
        """What one local step adds to the tally, given the model's output before the step."""
        return {}

    def finish(
        self, ctx: Context, x: Vec, trace: Trace
    ) -> tuple[Vec, dict[str, Tensor], dict[str, Tensor]]:
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
