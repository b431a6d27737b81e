"""What step rules, directions and moves have in common: they may talk to the server."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Self

from fedstep.core.aggregate import Aggregate
from fedstep.core.exchange import without
from fedstep.core.message_kinds import MessageKind
from fedstep.core.types import Shapes
from fedstep.core.vec import NewState, State, Vec


class LocalPart(ABC):  # noqa: B024 - abstract in kind: the slots' base classes say what is missing
    """A part of the client's solver; its state lasts for a round.

    What all clients should know travels with the model, once around in every round:

        shared_init, sent     on the server: what there is at first, what of it goes down
        message               on the client: what goes up, beside the delta
        received, fold        on the server: one message within its bounds, then the sum of all
        message_kinds         to the server's guard: what of it is not to be measured by its length

    Every method is the neutral element: a part that says nothing overrides nothing.
    """

    # uses vectors through sums only (phi.slope, phi.norm_sq), so that any coordinates serve
    intrinsic: ClassVar[bool] = False

    # what of the shared state is the server's alone and not sent
    withheld: ClassVar[frozenset[str]] = frozenset()

    def suited(self, shapes: Shapes) -> Self:
        """The part for a model whose parameters have these shapes; most do not want to know."""
        return self

    def init(self, x: Vec) -> NewState:
        """The state before the client's first step, `(...)` or `(..., d)` for x `(..., d)`."""
        return {}

    def shared_init(self, x: Vec) -> NewState:
        """What the server keeps and sends besides the model, for a model x of shape `(d,)`."""
        return {}

    def sent(self, shared: State) -> NewState:
        """What of the shared state goes down the wire: bytes are counted by it."""
        return without(self.withheld, shared)

    def message(self, state: State) -> NewState:
        """What the client sends at the end of a round; the server sees the weighted sum."""
        return {}

    def message_kinds(self) -> dict[str, MessageKind]:
        """Which values of the message a guard must not measure by their length."""
        return {}

    def received(
        self,
        message: State,
        shared: State,
    ) -> State:
        """A client's message as the server counts it, given what it was sent.

        What no honest client would say is brought back into its bounds here: the sum cannot tell.
        """
        return message

    def fold(
        self,
        shared: State,
        message: State,
        agg: Aggregate,
    ) -> NewState:
        """What is shared in the next round, given the sums of the messages."""
        return dict(shared)
