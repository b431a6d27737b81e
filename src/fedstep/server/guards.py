"""What the server does about updates that are finite but out of all proportion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate, Tallies
from fedstep.core.message_kinds import MessageKind
from fedstep.core.vec import NewState, State, Vec


@dataclass(frozen=True)
class Checked:
    """Deltas after the check, which of them were shortened, and what is summed for the server."""

    delta: Vec
    clipped: Tensor
    tallies: Tallies = field(default_factory=dict)  # client axis first, summed without weights
    listed: bool = False  # whether the server needs every delta, not only their sum

    def summands(
        self,
        blocks: Sequence[slice],
        message: CheckedMessage,
        weight: Tensor,
        usable: Tensor,
    ) -> list[Aggregate]:
        """With what was sent besides, as the server adds it up, one summand a block of clients."""
        clipped = self.clipped
        if message.clipped is not None:
            clipped = clipped | message.clipped
        return Aggregate.of_blocks(
            blocks,
            self.delta,
            message.message,
            weight,
            usable,
            clipped=clipped,
            tallies={**self.tallies, **message.tallies},
            listed=self.listed,
        )


@dataclass(frozen=True)
class CheckedMessage:
    """What clients send besides their deltas, after the check."""

    message: State
    tallies: Tallies = field(default_factory=dict)  # summed without weights, as those of deltas
    clipped: Tensor | None = None  # whose message was changed; None: nobody's


@dataclass(frozen=True)
class GuardedSum:
    """The sum that the server goes on with, and the guard's state for the next round."""

    aggregate: Aggregate
    state: State


class Guard(ABC):
    """Limits what one client can do to the model; its state travels with the broadcast."""

    private: ClassVar[bool] = False  # whether sums must not show a single client

    @abstractmethod
    def init(self, x: Vec) -> NewState:
        """The state before the first round."""

    @abstractmethod
    def check(self, delta: Vec, weight: Tensor, state: State) -> Checked:
        """One client's delta `(d,)` or a block's `(C, d)`, before it is weighted and summed."""

    def check_message(
        self,
        message: State,
        kinds: Mapping[str, MessageKind],
        weight: Tensor,
        state: State,
    ) -> CheckedMessage:
        """The same for what is sent besides; mostly it is left as it is.

        kinds: of those values that are not to be measured by their length.
        """
        return CheckedMessage(message)

    def check_gradient(self, gradient: Vec, weight: Tensor, state: State) -> Checked:
        """The same for the gradients that some methods ask for before a round."""
        return Checked(gradient, _nobody(gradient))

    @abstractmethod
    def settle(self, agg: Aggregate, state: State) -> GuardedSum:
        """The round's sum, mended where it must be, and the state for the next round."""

    def settle_gradient(self, agg: Aggregate, state: State) -> GuardedSum:
        """The same for the sum of the gradients."""
        return GuardedSum(agg, state)


@dataclass(frozen=True)
class Open(Guard):
    """Every finite update counts as it is: what the papers print."""

    def init(self, x: Vec) -> NewState:
        return {}

    def check(self, delta: Vec, weight: Tensor, state: State) -> Checked:
        return Checked(delta, _nobody(delta))

    def settle(self, agg: Aggregate, state: State) -> GuardedSum:
        return GuardedSum(agg, state)


def _nobody(vectors: Vec) -> Tensor:
    """A flag for every client, none of them set."""
    return torch.zeros(vectors.shape[:-1], dtype=torch.bool, device=vectors.device)
