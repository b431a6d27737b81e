"""States made of parts: fields in code, one flat dictionary with dotted names on disk and wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from typing import Any, Self

from torch import Tensor

from fedstep.core.vec import NewState, State, put, take

_FIELDS: dict[Any, tuple[tuple[str, bool], ...]] = {}


def part(state: State, name: str) -> NewState:
    """What a flat state holds of one part; nothing where the part is absent.

    >>> part({"step": 1, "reset.trials": 2, "reset.limit": 3}, "reset")
    {'trials': 2, 'limit': 3}
    """
    prefix = name + "."
    inside = {}
    for key, value in state.items():
        if key.startswith(prefix):
            inside[key.removeprefix(prefix)] = value
    return inside


def join(**parts: State | Tensor) -> NewState:
    """Parts as one flat state, the inverse of `part`; a tensor keeps its name as it is.

    >>> join(step=1, reset={"trials": 2})
    {'step': 1, 'reset.trials': 2}
    """
    flat: dict[str, Any] = {}
    for name, value in parts.items():
        if not isinstance(value, Mapping):
            flat[name] = value
            continue
        for key, inner in value.items():
            flat[f"{name}.{key}"] = inner
    return flat


@dataclass(frozen=True, eq=False)  # tensors do not compare to one truth value
class NestedState:
    """Base of the states whose parts are states.

    A field annotated `State` is a part, any other is one tensor:

        @dataclass(frozen=True)
        class SearchState(NestedState):
            step: Scalar
            reset: State

        SearchState.of({"step": s, "reset.trials": t}).reset["trials"] is t

    `of` takes what it has fields for and leaves the rest: one flat dictionary may serve several
    owners.
    """

    @classmethod
    def of(cls, state: State) -> Self:
        """The parts of a flat state.

        A part that is absent is empty, a tensor that is absent is a KeyError.
        """
        values: dict[str, Any] = {}
        for name, is_part in named_fields(cls):
            if is_part:
                values[name] = part(state, name)
            else:
                values[name] = state[name]
        return cls(**values)

    def flat(self) -> NewState:
        """One dictionary with dotted names, as it is saved and sent."""
        values = {}
        for name, _ in named_fields(type(self)):
            values[name] = getattr(self, name)
        return join(**values)

    def take(self, rows: Tensor) -> Self:
        """The rows (clients) of every tensor."""
        some = take(self.flat(), rows)
        return self.of(some)

    def put(self, rows: Tensor, new: Self) -> Self:
        """With the given rows replaced by `new`; the input is left untouched."""
        before = self.flat()
        replacement = new.flat()
        after = put(before, rows, replacement)
        return self.of(after)


def named_fields(kind: Any) -> tuple[tuple[str, bool], ...]:
    """The fields of a state, and whether each is a part: looked up once, not at every step."""
    known = _FIELDS.get(kind)
    if known is None:
        known = tuple((field.name, _is_part(field)) for field in fields(kind))
        _FIELDS[kind] = known
    return known


def _is_part(field: Field[Any]) -> bool:
    # An annotation is a text where its module imports `annotations` from the future: to resolve it
    # at every local step would cost more than the step.
    return field.type in (State, "State")
