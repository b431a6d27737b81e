"""What server and client exchange and remember, by the part that owns it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from fedstep.core.nested import NestedState, named_fields, part
from fedstep.core.vec import NewState, State


@dataclass(frozen=True, eq=False)
class OwnedState(NestedState):
    """A flat state seen as the values of a correction and those of the other parts.

    Flat, the correction's values bear their own names and the others' follow a prefix:
    `{"control": ..., "step.start": ...}`. Checkpoints and messages hold these flat names.
    """

    correction: State = field(default_factory=dict)

    @classmethod
    def of(cls, state: State) -> Self:
        # most methods exchange nothing, and every client of every round asks
        if not state:
            return cls()
        parts = {}
        for name, _ in named_fields(cls):
            if name != "correction":
                parts[name] = part(state, name)

        # what belongs to nobody else is the correction's, whatever names it chose
        dotted = [f"{name}." for name in parts]
        prefixes = tuple(dotted)
        rest = {}
        for name, value in state.items():
            if not name.startswith(prefixes):
                rest[name] = value
        return cls(correction=rest, **parts)

    def flat(self) -> NewState:
        # the correction has no prefix: it is what most methods are named after, and its names
        # stand in every checkpoint written so far
        flat = dict(self.correction)
        for owner, _ in named_fields(type(self)):
            if owner != "correction":
                for name, value in getattr(self, owner).items():
                    flat[f"{owner}.{name}"] = value
        return flat


@dataclass(frozen=True, eq=False)
class SharedState(OwnedState):
    """What the server keeps and sends besides the model."""

    step: State = field(default_factory=dict)  # of the step rule
    direction: State = field(default_factory=dict)  # of the direction, such as scales
    move: State = field(default_factory=dict)  # of the move, such as a momentum
    guard: State = field(default_factory=dict)  # of the guard: how long an update may be


@dataclass(frozen=True, eq=False)
class ClientMemory(OwnedState):
    """What a client keeps between its rounds."""

    step: State = field(default_factory=dict)  # of the step rule, where it carries over
    codec: State = field(default_factory=dict)  # of the codec: what compression left out


@dataclass(frozen=True, eq=False)
class ClientMessage(OwnedState):
    """What a client sends besides its delta, or the weighted sum of it over clients."""

    step: State = field(default_factory=dict)
    direction: State = field(default_factory=dict)
    move: State = field(default_factory=dict)


def without(withheld: frozenset[str], shared: State) -> NewState:
    """A part's shared state as it is sent: without what is the server's alone."""
    return {name: value for name, value in shared.items() if name not in withheld}
