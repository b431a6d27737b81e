"""The machine that a pickle is a program for, with nothing in it but plain data.

`data/pickles.py` says which operations it has and which functions it may call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np


class NotPlain(ValueError):
    """Something in a pickle that plain data do not need."""


@dataclass(frozen=True)
class PickledName:
    """A thing that the pickle names; it is never imported."""

    module: str
    name: str


@dataclass
class ArrayInMaking:
    """What the reconstruction of an array gives, before its state is set."""

    value: np.ndarray | None = None


@dataclass
class ElementKind:
    """A dtype, of which the name is all that matters."""

    name: str


NDARRAY = PickledName("numpy", "ndarray")
Call: TypeAlias = "Callable[[PickleMachine, tuple[Any, ...]], Any]"


@dataclass
class PickleMachine:
    """The stack, the marks on it and the memo, as pickle's documentation has them."""

    calls: Mapping[PickledName, Call]  # the functions that it may name, carried out here
    budget: int  # bytes that may still be copied
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    # a dict, not an array: a number that the file makes up costs one entry
    memo: dict[int, Any] = field(default_factory=dict)

    def nothing(self, argument: Any) -> None:
        """What only helps a reader of streams."""

    def push(self, argument: Any) -> None:
        self.stack.append(argument)

    def push_old_string(self, argument: str) -> None:
        # Python 2 wrote bytes and text alike; pickletools reads both as latin-1
        self.stack.append(argument.encode("latin-1"))

    def mark(self, argument: Any) -> None:
        self.marks.append(len(self.stack))

    def since_mark(self) -> list[Any]:
        """Take what was pushed since the last mark."""
        place = self.marks.pop()
        if place > len(self.stack):
            raise NotPlain("its stack is out of order")
        # a slice: the list of a batch is as long as the batch
        values = self.stack[place:]
        del self.stack[place:]
        return values

    def empty_list(self, argument: Any) -> None:
        self.stack.append([])

    def empty_dict(self, argument: Any) -> None:
        self.stack.append({})

    def tuple_since_mark(self, argument: Any) -> None:
        self.stack.append(tuple(self.since_mark()))

    def tuple1(self, argument: Any) -> None:
        self._tuple_of(1)

    def tuple2(self, argument: Any) -> None:
        self._tuple_of(2)

    def tuple3(self, argument: Any) -> None:
        self._tuple_of(3)

    def _tuple_of(self, count: int) -> None:
        if count > len(self.stack):
            raise NotPlain("its stack is empty")
        values = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.stack.append(values)

    def append(self, argument: Any) -> None:
        value = self.stack.pop()
        self._extend([value])

    def appends(self, argument: Any) -> None:
        self._extend(self.since_mark())

    def _extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise NotPlain("it appends to something that is no list")
        # the list itself, which the memo may hold too
        target.extend(values)

    def set_item(self, argument: Any) -> None:
        value = self.stack.pop()
        key = self.stack.pop()
        self._set([key, value])

    def set_items(self, argument: Any) -> None:
        self._set(self.since_mark())

    def _set(self, keys_and_values: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise NotPlain("it sets an entry of something that is no dict")
        keys = keys_and_values[::2]
        values = keys_and_values[1::2]
        for key, value in zip(keys, values, strict=True):
            # the hash of nested tuples can take any time
            if not isinstance(key, str | bytes):
                raise NotPlain(f"a key is a {type(key).__name__}")
            target[key] = value

    def put(self, argument: int) -> None:
        self.memo[argument] = self.stack[-1]

    def memoize(self, argument: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def get(self, argument: int) -> None:
        self.stack.append(self.memo[argument])

    def name_in_text(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._push_name(PickledName(module, name))

    def name_on_stack(self, argument: Any) -> None:
        name = self.stack.pop()
        module = self.stack.pop()
        self._push_name(PickledName(plain_text(module), plain_text(name)))

    def _push_name(self, name: PickledName) -> None:
        if name not in self.calls and name != NDARRAY:
            raise NotPlain(f"it asks for {name.module[:60]}.{name.name[:60]}")
        self.stack.append(name)

    def call(self, argument: Any) -> None:
        arguments = self.stack.pop()
        name = self.stack.pop()
        # the first test first: to look something up is to hash it
        callable_name = isinstance(name, PickledName) and name in self.calls
        if not callable_name or not isinstance(arguments, tuple):
            raise NotPlain("it calls something that is no function")
        self.stack.append(self.calls[name](self, arguments))

    def set_state(self, argument: Any) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, ArrayInMaking):
            target.value = _array(self, state)
        elif not isinstance(target, ElementKind):
            # a dtype's state is byte order and the like, of no meaning to single bytes
            raise NotPlain("it sets the state of something that has none")

    def copying(self, length: int) -> None:
        """Refuse to copy more than a file of its length can need."""
        self.budget -= length
        if self.budget < 0:
            raise NotPlain("it copies its content again and again")


def plain_text(value: Any) -> str:
    """The value, if it is a text."""
    # never str() of anything else: that of nested lists can take any time
    if not isinstance(value, str):
        raise NotPlain("a name is no text")
    return value


def _array(machine: PickleMachine, state: Any) -> np.ndarray:
    """The array of a numpy array's state: version, shape, kind, by column or by row, bytes."""
    _, shape, kind, by_column, content = state
    if not isinstance(content, bytes) or not isinstance(shape, tuple):
        raise NotPlain("an array has no bytes or no shape")
    machine.copying(len(content))
    if not isinstance(kind, ElementKind) or kind.name not in ("u1", "uint8"):
        raise NotPlain("the array is not one of bytes")
    order: Any = "C"
    if by_column:
        order = "F"
    stored = np.frombuffer(content, np.uint8).reshape(shape, order=order)
    return np.array(stored, order="C")
