"""Pickles of plain data, read without unpickling: nothing is imported, called or changed.

`pickle.Unpickler` with a list of allowed names is safe from foreign code, not from a file that asks
for a memo of 2^28 places, or hashes a tuple of tuples of tuples. The few operations that a CIFAR
batch consists of are carried out here, each in a time and a memory that its bytes pay for.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

from fedstep.data.pickle_machine import (
    ArrayInMaking,
    Call,
    ElementKind,
    NotPlain,
    PickledName,
    PickleMachine,
    plain_text,
)

STEPS = 2_000_000  # CIFAR-100's training file, the longest, takes about 300,000
# How often the bytes of the file may be copied: a step of two bytes can ask for a copy of all that
# came before it.
COPIES = 4


def plain_pickle(content: bytes) -> Any:
    """The numbers, strings, lists, tuples, dicts and arrays of bytes in a pickle.

    Raises NotPlain, or whatever else a damaged file leads to.
    """
    machine = PickleMachine(CALLS, budget=COPIES * len(content))
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
    if isinstance(value, ArrayInMaking):
        return value.value
    if isinstance(value, dict):
        return {key: _finished_entry(entry) for key, entry in value.items()}
    return value


def _finished_entry(entry: Any) -> Any:
    # one level is all that a batch has; a deeper walk could be made endless by the file
    if isinstance(entry, ArrayInMaking):
        return entry.value
    return entry


def _begin_array(machine: PickleMachine, arguments: tuple[Any, ...]) -> ArrayInMaking:
    return ArrayInMaking()


def _element_kind(machine: PickleMachine, arguments: tuple[Any, ...]) -> ElementKind:
    name = arguments[0]
    if isinstance(name, bytes):
        return ElementKind(name.decode("ascii"))
    return ElementKind(plain_text(name))


def _latin1(machine: PickleMachine, arguments: tuple[Any, ...]) -> bytes:
    # Python 3 writes bytes so in protocols that do not know them
    text = plain_text(arguments[0])
    machine.copying(len(text))
    return text.encode("latin-1")


CALLS: dict[PickledName, Call] = {
    PickledName("numpy.core.multiarray", "_reconstruct"): _begin_array,
    PickledName("numpy._core.multiarray", "_reconstruct"): _begin_array,
    PickledName("numpy", "dtype"): _element_kind,
    PickledName("_codecs", "encode"): _latin1,
}
CONSTANTS: dict[str, Any] = {
    "NONE": None,
    "NEWTRUE": True,
    "NEWFALSE": False,
    "EMPTY_TUPLE": (),
}
OPERATIONS: dict[str, Callable[[PickleMachine, Any], None]] = {
    "PROTO": PickleMachine.nothing,
    "FRAME": PickleMachine.nothing,
    "MARK": PickleMachine.mark,
    "BININT": PickleMachine.push,
    "BININT1": PickleMachine.push,
    "BININT2": PickleMachine.push,
    "LONG1": PickleMachine.push,
    "BINFLOAT": PickleMachine.push,
    "BINBYTES": PickleMachine.push,
    "SHORT_BINBYTES": PickleMachine.push,
    "BINBYTES8": PickleMachine.push,
    "BINUNICODE": PickleMachine.push,
    "SHORT_BINUNICODE": PickleMachine.push,
    "BINSTRING": PickleMachine.push_old_string,
    "SHORT_BINSTRING": PickleMachine.push_old_string,
    "EMPTY_LIST": PickleMachine.empty_list,
    "EMPTY_DICT": PickleMachine.empty_dict,
    "TUPLE": PickleMachine.tuple_since_mark,
    "TUPLE1": PickleMachine.tuple1,
    "TUPLE2": PickleMachine.tuple2,
    "TUPLE3": PickleMachine.tuple3,
    "APPEND": PickleMachine.append,
    "APPENDS": PickleMachine.appends,
    "SETITEM": PickleMachine.set_item,
    "SETITEMS": PickleMachine.set_items,
    "BINPUT": PickleMachine.put,
    "LONG_BINPUT": PickleMachine.put,
    "MEMOIZE": PickleMachine.memoize,
    "BINGET": PickleMachine.get,
    "LONG_BINGET": PickleMachine.get,
    "GLOBAL": PickleMachine.name_in_text,
    "STACK_GLOBAL": PickleMachine.name_on_stack,
    "REDUCE": PickleMachine.call,
    "BUILD": PickleMachine.set_state,
}
