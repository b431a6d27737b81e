"""Pickles of plain data, read without unpickling: nothing is imported, called or changed.

`pickle.Unpickler` with a list of allowed names is safe from foreign code, not from a file that asks
for a memo of 2^28 places, or hashes a tuple of tuples of tuples. The few operations that a CIFAR
batch consists of are carried out here, each in a time and a memory that its bytes pay for.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

STEPS = 2_000_000  # CIFAR-100's training file, the longest, takes about 300,000
# How often the bytes of the file may be copied: a step of two bytes can ask for a copy of all that
# came before it.
COPIES = 4


class NotPlain(ValueError):
    """Something in a pickle that plain data do not need."""


@dataclass(frozen=True)
class _Name:
    """A thing that the pickle names; it is never imported."""

    module: str
    name: str


@dataclass
class _ArrayInMaking:
    """What the reconstruction of an array gives, before its state is set."""

    value: np.ndarray | None = None


@dataclass
class _ElementKind:
    """A dtype, of which the name is all that matters."""

    name: str


def plain_pickle(content: bytes) -> Any:
    """The numbers, strings, lists, tuples, dicts and arrays of bytes in a pickle.

    Raises NotPlain, or whatever else a damaged file leads to.
    """
    machine = _Machine(budget=COPIES * len(content))
    for step, (operation, argument, _) in enumerate(pickletools.genops(content)):
        if step > STEPS:
            raise NotPlain(f"it takes more than {STEPS:,} steps")
        # what follows the end is not looked at, as in pickle
        if operation.name == "STOP":
            return _finished(machine.stack[-1])
        if operation.name in CONSTANTS:
            machine.stack.append(CONSTANTS[operation.name])
        elif operation.name in OPERATIONS:
            OPERATIONS[operation.name](machine, argument)
        else:
            raise NotPlain(f"it uses {operation.name}")
    raise NotPlain("it has no end")


def _finished(value: Any) -> Any:
    """The value, with arrays in place of what they were made of; only a dict's own entries."""
    if isinstance(value, _ArrayInMaking):
        return value.value
    if isinstance(value, dict):
        return {key: _finished_entry(entry) for key, entry in value.items()}
    return value


def _finished_entry(entry: Any) -> Any:
    # one level is all that a batch has; a deeper walk could be made endless by the file
    if isinstance(entry, _ArrayInMaking):
        return entry.value
    return entry


@dataclass
class _Machine:
    """The stack, the marks on it and the memo, as pickle's documentation has them."""

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
        self._push_name(_Name(module, name))

    def name_on_stack(self, argument: Any) -> None:
        name = self.stack.pop()
        module = self.stack.pop()
        self._push_name(_Name(_text(module), _text(name)))

    def _push_name(self, name: _Name) -> None:
        if name not in CALLS and name != NDARRAY:
            raise NotPlain(f"it asks for {name.module[:60]}.{name.name[:60]}")
        self.stack.append(name)

    def call(self, argument: Any) -> None:
        arguments = self.stack.pop()
        name = self.stack.pop()
        # the first test first: to look something up is to hash it
        callable_name = isinstance(name, _Name) and name in CALLS
        if not callable_name or not isinstance(arguments, tuple):
            raise NotPlain("it calls something that is no function")
        self.stack.append(CALLS[name](self, arguments))

    def set_state(self, argument: Any) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, _ArrayInMaking):
            target.value = _array(self, state)
        elif not isinstance(target, _ElementKind):
            # a dtype's state is byte order and the like, of no meaning to single bytes
            raise NotPlain("it sets the state of something that has none")

    def copying(self, length: int) -> None:
        """Refuse to copy more than a file of its length can need."""
        self.budget -= length
        if self.budget < 0:
            raise NotPlain("it copies its content again and again")


def _text(value: Any) -> str:
    # never str() of anything else: that of nested lists can take any time
    if not isinstance(value, str):
        raise NotPlain("a name is no text")
    return value


def _array(machine: _Machine, state: Any) -> np.ndarray:
    """The array of a numpy array's state: version, shape, kind, by column or by row, bytes."""
    _, shape, kind, by_column, content = state
    if not isinstance(content, bytes) or not isinstance(shape, tuple):
        raise NotPlain("an array has no bytes or no shape")
    machine.copying(len(content))
    if not isinstance(kind, _ElementKind) or kind.name not in ("u1", "uint8"):
        raise NotPlain("the array is not one of bytes")
    order: Any = "C"
    if by_column:
        order = "F"
    stored = np.frombuffer(content, np.uint8).reshape(shape, order=order)
    return np.array(stored, order="C")


def _begin_array(machine: _Machine, arguments: tuple[Any, ...]) -> _ArrayInMaking:
    return _ArrayInMaking()


def _element_kind(machine: _Machine, arguments: tuple[Any, ...]) -> _ElementKind:
    name = arguments[0]
    if isinstance(name, bytes):
        return _ElementKind(name.decode("ascii"))
    return _ElementKind(_text(name))


def _latin1(machine: _Machine, arguments: tuple[Any, ...]) -> bytes:
    # Python 3 writes bytes so in protocols that do not know them
    text = _text(arguments[0])
    machine.copying(len(text))
    return text.encode("latin-1")


Call: TypeAlias = Callable[[_Machine, tuple[Any, ...]], Any]
NDARRAY = _Name("numpy", "ndarray")
CALLS: dict[_Name, Call] = {
    _Name("numpy.core.multiarray", "_reconstruct"): _begin_array,
    _Name("numpy._core.multiarray", "_reconstruct"): _begin_array,
    _Name("numpy", "dtype"): _element_kind,
    _Name("_codecs", "encode"): _latin1,
}
CONSTANTS: dict[str, Any] = {
    "NONE": None,
    "NEWTRUE": True,
    "NEWFALSE": False,
    "EMPTY_TUPLE": (),
}
OPERATIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": _Machine.nothing,
    "FRAME": _Machine.nothing,
    "MARK": _Machine.mark,
    "BININT": _Machine.push,
    "BININT1": _Machine.push,
    "BININT2": _Machine.push,
    "LONG1": _Machine.push,
    "BINFLOAT": _Machine.push,
    "BINBYTES": _Machine.push,
    "SHORT_BINBYTES": _Machine.push,
    "BINBYTES8": _Machine.push,
    "BINUNICODE": _Machine.push,
    "SHORT_BINUNICODE": _Machine.push,
    "BINSTRING": _Machine.push_old_string,
    "SHORT_BINSTRING": _Machine.push_old_string,
    "EMPTY_LIST": _Machine.empty_list,
    "EMPTY_DICT": _Machine.empty_dict,
    "TUPLE": _Machine.tuple_since_mark,
    "TUPLE1": _Machine.tuple1,
    "TUPLE2": _Machine.tuple2,
    "TUPLE3": _Machine.tuple3,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "MEMOIZE": _Machine.memoize,
    "BINGET": _Machine.get,
    "LONG_BINGET": _Machine.get,
    "GLOBAL": _Machine.name_in_text,
    "STACK_GLOBAL": _Machine.name_on_stack,
    "REDUCE": _Machine.call,
    "BUILD": _Machine.set_state,
}
