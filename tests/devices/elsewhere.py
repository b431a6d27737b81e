"""A device that is not the CPU, on any machine: its numbers lie in the CPU's memory.

Tensors on it are `Elsewhere`, whose device torch knows by name and has nothing behind. What is done
with them is done on the CPU, so a run there has the bits of a run on the CPU; but as on a GPU a
tensor of the CPU cannot be mixed with them, and a number that Python asks for is a wait for the
device, which is counted.
"""

from __future__ import annotations

from collections import Counter

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

NAME = "lazy"
DEVICE = torch.device(NAME)
aten = torch.ops.aten
# as on a GPU: places in a tensor may be named by indices that lie on the CPU
INDEXED = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)
MADE = (torch.tensor, torch.as_tensor, torch.Tensor.new_tensor)


class WrongDeviceError(RuntimeError):
    """Tensors of two devices in one operation."""


class Elsewhere(torch.Tensor):
    """A tensor on the other device."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )
        made.inner = inner
        return made

    def __repr__(self):
        return f"Elsewhere({self.inner})"

    def data_ptr(self):
        return self.inner.data_ptr()

    def tolist(self):
        return self.cpu().tolist()

    def numpy(self, *args, **kwargs):
        raise WrongDeviceError("numpy: a tensor of another device; copy it to the CPU first")

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return computed(function, args, dict(kwargs or {}))


class OtherDevice(TorchDispatchMode):
    """Inside, tensors can be made on the other device and moved to and from it."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()
        self._made = _Made()

    def __enter__(self):
        self._made.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._made.__exit__(*error)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if _waits(function, args, kwargs or {}):
            self.reads[str(function)] += 1
        return computed(function, args, dict(kwargs or {}))


def _waits(function, args, kwargs) -> bool:
    """Whether Python has to wait for what the device was told before."""
    if not any(isinstance(each, Elsewhere) for each in tree_leaves(args)):
        return False
    if function in (aten._local_scalar_dense.default, aten.nonzero.default):
        return True
    if function in INDEXED:
        # how many entries a mask chooses decides the shape of the result
        chosen = [each for each in tree_leaves(args[1]) if isinstance(each, torch.Tensor)]
        return any(each.dtype is torch.bool for each in chosen)
    device = kwargs.get("device")
    return function is aten._to_copy.default and device is not None and not _is_there(device)


class _Made(TorchFunctionMode):
    """`torch.tensor` and its like ask no dispatcher: they are made here and moved there."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function not in MADE:
            return function(*args, **kwargs)
        device = kwargs.pop("device", None)
        if function is torch.Tensor.new_tensor:
            like, *args = args
            device = device or like.device
            kwargs.setdefault("dtype", like.dtype)
            function = torch.tensor
        elif device is None and isinstance(args[0], torch.Tensor):
            device = args[0].device
        made = function(*args, **kwargs)
        if device is None:
            return made
        return made.to(device)


def computed(function, args, kwargs):
    """One operation, on the device that its tensors or its arguments name."""
    if function is aten._to_copy.default:
        return _moved(function, args, kwargs)
    if function is aten.copy_.default:
        function(_inner(args[0]), _inner(args[1]), *args[2:])
        return args[0]
    there = _check(function, args, kwargs)
    if _is_there(kwargs.get("device")):
        kwargs["device"] = torch.device("cpu")
        there = True
    result = function(*tree_map(_inner, args), **tree_map(_inner, kwargs))
    if not there:
        return result
    if function._schema.is_mutable and args and isinstance(args[0], Elsewhere):
        return args[0]
    return tree_map(_outer, result)


def _check(function, args, kwargs) -> bool:
    """Whether tensors of the other device take part; then none of the CPU may."""
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    there = any(isinstance(each, Elsewhere) for each in tensors)
    if function in INDEXED:
        tensors = [args[0]]
        if not isinstance(args[0], Elsewhere) and there:
            raise WrongDeviceError(f"{function}: indices of another device for a tensor of the CPU")
    for each in tensors:
        # a single number of the CPU is a constant, for a GPU too
        if there and not isinstance(each, Elsewhere) and each.dim() > 0:
            raise WrongDeviceError(f"{function}: a tensor of the CPU, {tuple(each.shape)}")
    return there


def _moved(function, args, kwargs):
    (source,) = args
    device = kwargs.pop("device", None) or source.device
    copy = function(_inner(source), **kwargs)
    return Elsewhere(copy) if _is_there(device) else copy


def _is_there(device) -> bool:
    return device is not None and torch.device(device).type == NAME


def _inner(value):
    return value.inner if isinstance(value, Elsewhere) else value


def _outer(value):
    if isinstance(value, torch.Tensor) and not isinstance(value, Elsewhere):
        return Elsewhere(value)
    return value
