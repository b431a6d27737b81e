"""What travels between the server and a node: tensors as bytes, and plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import torch
from torch import Tensor

from fedstep.core.vec import NewState, State

# what every transport can carry without a pickle
Value: TypeAlias = int | float | str | bool | list[int] | list[float] | list[str]

# the only types that may come over the wire: a name from outside is looked up here, never evaluated
DTYPES: Mapping[str, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
}


MOST = 10**9  # trials, passes: more cannot have happened, and sums of them stay exact


class RefusedReply(Exception):
    """What came over the wire cannot be used; the text says why.

    It is data of the round, not an error of the run: whoever sent it is left out and counted.
    """


@dataclass(frozen=True)
class WireTensor:
    """A tensor as its bytes, row by row, in the order of bytes of the machine that made it.

    All machines that torch runs on have the lowest byte first.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Parcel:
    """One thing that is sent: values by name, and tensors by name."""

    values: Mapping[str, Value] = field(default_factory=dict)
    tensors: Mapping[str, WireTensor] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorForm:
    """All that is known of a tensor before it has come."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @staticmethod
    def of(tensor: Tensor) -> TensorForm:
        return TensorForm(tensor.dtype, tuple(tensor.shape))

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{dtype_name(self.dtype)} {self.shape}"


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a type on the wire: `float32`."""
    return str(dtype).removeprefix("torch.")


def to_wire(tensor: Tensor) -> WireTensor:
    """A tensor as it travels; bfloat16 too, which numpy does not know."""
    # row by row, whatever strides it has here
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return WireTensor(
        dtype=dtype_name(tensor.dtype),
        shape=tuple(tensor.shape),
        data=flat.view(torch.uint8).numpy().tobytes(),
    )


def from_wire(
    wire: WireTensor,
    form: TensorForm,
    name: str,
) -> Tensor:
    """The tensor again, if it has this form; `name` is for the refusal.

    The length of the data is compared before anything is made of them: what a sender claims about
    shapes never decides how much memory is taken.
    """
    claimed = f"{wire.dtype} {tuple(wire.shape)}"
    if claimed != str(form):
        raise RefusedReply(f"{name} is {claimed}, expected {form}")
    if len(wire.data) != form.bytes:
        raise RefusedReply(f"{name} has {len(wire.data)} bytes, expected {form.bytes}")
    # torch.frombuffer refuses an empty buffer
    if not wire.data:
        return torch.empty(form.shape, dtype=form.dtype)
    if form.dtype is torch.bool and not set(wire.data) <= {0, 1}:
        # other bytes are no truth values, and torch computes nonsense with them
        raise RefusedReply(f"{name} has bytes that are neither true nor false")
    # a copy: tensors may be written to, bytes may not
    return torch.frombuffer(bytearray(wire.data), dtype=form.dtype).reshape(form.shape)


def wire_state(prefix: str, state: State) -> dict[str, WireTensor]:
    """A state as it travels, under a prefix."""
    return {prefix + name: to_wire(value) for name, value in state.items()}


def forms_of(prefix: str, state: State) -> dict[str, TensorForm]:
    """What a state will look like on the wire."""
    return {prefix + name: TensorForm.of(value) for name, value in state.items()}


def read_state(
    prefix: str,
    tensors: Mapping[str, WireTensor],
    forms: Mapping[str, TensorForm],
) -> NewState:
    """The tensors under a prefix, which must have come and have the forms that are expected."""
    state = {}
    for name, form in forms.items():
        # one table of forms serves deltas and messages
        if not name.startswith(prefix):
            continue
        if name not in tensors:
            raise RefusedReply(f"{name} is missing")
        state[name.removeprefix(prefix)] = from_wire(tensors[name], form, name)
    return state


def whole_value(
    values: Mapping[str, Value],
    name: str,
    most: int = MOST,
) -> int:
    """A whole number from outside; truth values and floats are none."""
    value = values.get(name)
    # type, not isinstance: True is an int
    if type(value) is not int or not 0 <= value <= most:
        raise RefusedReply(f"{name} is {str(value)[:80]!r}, expected a whole number from 0")
    return value
