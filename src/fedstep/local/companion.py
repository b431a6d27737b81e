"""What a correction adds to every local step; the neutral one adds nothing."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from fedstep.core.types import Batch, Context, Output
from fedstep.core.vec import NewState, State, Vec
from fedstep.local.terms import Term


class Companion(ABC):  # noqa: B024 - abstract in kind: the neutral element of every method is right
    """The half of a correction that the local solver calls; every method is the neutral element."""

    # passes that `prepare` makes in a local step
    forwards: ClassVar[int] = 0
    backwards: ClassVar[int] = 0
    # what of the tally is for the client's own use
    unsent: ClassVar[frozenset[str]] = frozenset()

    def terms(self) -> tuple[Term, ...]:
        """What it adds to the client's function."""
        return ()

    def steer(self, shared: State) -> NewState:
        """What the client's direction begins with, of the correction's shared state."""
        return {}

    def prepare(self, ctx: Context, batch: Batch) -> NewState:
        """What the terms find in the client's memory during one local step, its trials included."""
        return {}

    def tally(self, x: Vec) -> NewState:
        """Zeros, for what is summed over the local steps and sent; x has shape `(..., d)`.

        `finish` finds the sums beside the client's memory.
        """
        return {}

    def count(self, out: Output, batch: Batch) -> NewState:
        """What one local step adds to the tally, given the model's output before the step."""
        return {}

    def count_gradient(self, g: Vec, ctx: Context) -> NewState:
        """What it adds to it besides, given the gradient of all that the client descends.

        The terms are part of g; ctx has what they were made of, `prepare`'s values included.
        """
        return {}
