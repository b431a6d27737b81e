"""The neutral correction: plain averaging."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from fedstep.core.aggregate import Aggregate
from fedstep.core.types import Context, Forward, TargetKind
from fedstep.core.vec import NewState, Scalar, State, Vec
from fedstep.local.companion import Companion
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Finished:
    """What a correction makes of a client that has arrived."""

    delta: Vec  # what the server adds up: x - anchor, or what stands for it
    memory: State = field(default_factory=dict)  # only what is new
    message: State = field(default_factory=dict)


@dataclass(frozen=True)
class Correction(Companion):
    """Both halves of what talks across the network, in one place.

    Every method is the neutral element; a method that remembers or sends more overrides only what
    differs. Here is what happens once a round; `Companion` has what happens in every local step.
    In `fold`, `spread` and `gather`, shared state and messages are the correction's own.
    """

    # what of the shared state is the server's alone and not sent
    withheld: ClassVar[frozenset[str]] = frozenset()
    # whether its terms need the model's embeddings
    embeds: ClassVar[bool] = False
    # whether a round begins with every client's gradient at the server's point
    probes: ClassVar[bool] = False
    # whether those gradients stay with the clients for now
    silent: ClassVar[bool] = False

    @property
    def asks_others(self) -> bool:
        """Whether the mean gradient is that of another sample of clients."""
        return False

    def suited(self, model: Forward, targets: TargetKind) -> Correction:
        """The correction for this model and targets; refuses what it cannot work with."""
        return self

    def shared_init(self, x: Vec) -> NewState:
        """What the server keeps and sends besides the model."""
        return {}

    def memory_init(self, x: Vec) -> NewState:
        """What a client keeps between its rounds."""
        return {}

    def probe(self, ctx: Context, g: Vec) -> tuple[NewState, NewState]:
        """Memory and message of a client.

        g is the gradient of its loss over all its samples at the anchor.
        """
        return {}, {}

    def gather(self, shared: State, agg: Aggregate) -> NewState:
        """What is sent with the model after the probe.

        `agg.delta` is the weighted sum of the gradients.
        """
        return dict(shared)

    def start(self, ctx: Context) -> Vec:
        """Where the client begins."""
        return ctx.anchor

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        """Delta, memory and message of a client that has arrived at x."""
        return Finished(delta=x - ctx.anchor)

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        """Server direction and new shared state.

        fraction is the part of all clients, by weight, that took part.
        """
        return agg.mean(agg.delta), dict(shared)

    def moved(self, shared: State, old: Vec, new: Vec) -> NewState:
        """What is shared once the server has gone from old to new, after `fold`."""
        return dict(shared)

    def spread(self, shared: State, agg: Aggregate) -> Scalar:
        """Weighted sum over clients of |their part of the direction|^2, after `fold`.

        Extrapolation compares its mean with |direction|^2.
        """
        return agg.norm_sq
