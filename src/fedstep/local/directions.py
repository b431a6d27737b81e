"""Which way: each part maps a descent direction (at first -g) to another."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.local_part import LocalPart
from fedstep.core.message_kinds import MessageKind
from fedstep.core.nested import join, part
from fedstep.core.types import Shapes
from fedstep.core.vec import NewState, State, Vec, norm_sq, scale


class Direction(LocalPart):
    """Which way: maps a descent direction to another. The state lasts for a round."""

    def begin(self, x: Vec, sent: State) -> NewState:
        """The state at the beginning of a round.

        sent is the shared state of the direction, and what the correction sends for it.
        """
        return self.init(x)

    @abstractmethod
    def apply(
        self,
        d: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        """The new direction at x, and the state for the next step."""

    def downhill(
        self,
        g: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        """`apply` to -g, for a part that can do without making -g: it is as large as the model."""
        return self.apply(-g, x, state)

    def travel(self, d: Vec, state: State) -> Vec:
        """The way to go once the step along d is found, given the state after `apply`.

        Along d, unless a part differs.
        """
        return d


@dataclass(frozen=True)
class Steepest(Direction):
    """d itself: the negative gradient."""

    intrinsic: ClassVar[bool] = True

    def apply(
        self,
        d: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        return d, {}


@dataclass(frozen=True)
class Clip(Direction):
    """Shorten d to the given norm: d * min(1, norm / (|d| + 1e-6)), as torch clips gradients."""

    norm: float = 10.0  # the published programs'

    def __post_init__(self) -> None:
        if not self.norm > 0:
            raise InputError(f"Clip(norm={self.norm}): the norm must be positive")

    def apply(
        self,
        d: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        length = norm_sq(d).sqrt()
        # 1e-6 as torch has it: the published programs clip with torch
        factor = (self.norm / (length + 1e-6)).clamp(max=1.0)
        return scale(factor, d), {}


@dataclass(frozen=True)
class Unit(Direction):
    """d / |d|: the step is then a length. A d of length 0 stays what it is."""

    def apply(
        self,
        d: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        length = norm_sq(d).sqrt()
        # no division by 0 even where its outcome is not used
        still = length == 0
        return scale(1 / torch.where(still, 1.0, length), d), {}


@dataclass(frozen=True)
class Decay(Direction):
    """d - weight * x: weight decay as optimisers apply it, after clipping and outside the loss.

    A line search does not see it; use the term `L2` there.
    """

    weight: float = 1e-4  # the published programs'

    def apply(
        self,
        d: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        return d - self.weight * x, {}


@dataclass(frozen=True)
class Momentum(Direction):
    """v <- beta v + d, go along v (heavy ball on the client, forgotten at the end of the round).

    v need not be a descent direction of the batch at hand; a line search then takes no step and
    counts a failure.
    """

    beta: float = 0.9
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise InputError(f"Momentum(beta={self.beta}): beta must lie in [0, 1)")

    def init(self, x: Vec) -> NewState:
        return {"velocity": torch.zeros_like(x)}

    def apply(
        self,
        d: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        # no dampening, as torch's SGD has it by default
        v = self.beta * state["velocity"] + d
        return v, {"velocity": v}


@dataclass(frozen=True)
class Chain(Direction):
    """Several directions, first to last: `Chain((Clip(10), Decay(1e-4)))`.

    A part that travels another way than it searches can only be the last.
    """

    parts: tuple[Direction, ...]

    def __post_init__(self) -> None:
        for each in self.parts:
            if not isinstance(each, Direction):
                raise InputError(f"Chain(parts=({each!r},)): give directions such as Clip()")
        # what comes behind would be given d and not the way to travel
        for each in self.parts[:-1]:
            if type(each).travel is not Direction.travel:
                name = type(each).__name__
                raise InputError(f"Chain: {name} travels another way than it searches; put it last")

    def suited(self, shapes: Shapes) -> Self:
        return replace(self, parts=tuple(each.suited(shapes) for each in self.parts))

    def init(self, x: Vec) -> NewState:
        return self.begin(x, {})

    def shared_init(self, x: Vec) -> NewState:
        # by place, not by name: the same part may stand in the chain twice
        states: dict[str, State] = {}
        for i, each in enumerate(self.parts):
            states[str(i)] = each.shared_init(x)
        return join(**states)

    def sent(self, shared: State) -> NewState:
        states: dict[str, State] = {}
        for i, each in enumerate(self.parts):
            states[str(i)] = each.sent(part(shared, str(i)))
        return join(**states)

    def begin(self, x: Vec, sent: State) -> NewState:
        states: dict[str, State] = {}
        for i, each in enumerate(self.parts):
            # what the correction sends is for everybody
            states[str(i)] = each.begin(x, {**sent, **part(sent, str(i))})
        return join(**states)

    def message(self, state: State) -> NewState:
        messages: dict[str, State] = {}
        for i, each in enumerate(self.parts):
            messages[str(i)] = each.message(part(state, str(i)))
        return join(**messages)

    def message_kinds(self) -> dict[str, MessageKind]:
        kinds = {}
        for i, each in enumerate(self.parts):
            for name, kind in each.message_kinds().items():
                kinds[f"{i}.{name}"] = kind.under(str(i))
        return kinds

    def received(
        self,
        message: State,
        shared: State,
    ) -> State:
        messages: dict[str, State] = {}
        for i, each in enumerate(self.parts):
            place = str(i)
            messages[place] = each.received(part(message, place), part(shared, place))
        return join(**messages)

    def fold(
        self,
        shared: State,
        message: State,
        agg: Aggregate,
    ) -> NewState:
        folded: dict[str, State] = {}
        for i, each in enumerate(self.parts):
            place = str(i)
            folded[place] = each.fold(part(shared, place), part(message, place), agg)
        return join(**folded)

    def apply(
        self,
        d: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        after: dict[str, State] = {}
        for i, each in enumerate(self.parts):
            d, after[str(i)] = each.apply(d, x, part(state, str(i)))
        return d, join(**after)

    def travel(self, d: Vec, state: State) -> Vec:
        if not self.parts:
            return d
        last = len(self.parts) - 1
        return self.parts[last].travel(d, part(state, str(last)))
