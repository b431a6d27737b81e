"""What travels between the driver and the actors of a Ray cluster: a text and its buffers."""

from __future__ import annotations

import io
import warnings
from typing import Any, TypeAlias

import numpy as np

from fedstep.execute.ray_session import ray
from fedstep.execute.wire import Message, reduce_tensor, unpack_message

Packed: TypeAlias = "tuple[bytes, list[Any]]"  # the text, and an array of bytes a tensor


class _Pickler(ray.cloudpickle.CloudPickler):
    """Tensors as buffers beside the text; classes of a script by value, as Ray does it."""

    def reducer_override(self, value: Any) -> Any:
        reduced = reduce_tensor(value)
        if reduced is not NotImplemented:
            return reduced
        return super().reducer_override(value)


def packed(value: Any) -> Packed:
    """A value as Ray's object store takes it best."""
    text = io.BytesIO()
    buffers: list[Any] = []
    pickler = _Pickler(text, protocol=5, buffer_callback=buffers.append)
    pickler.dump(value)
    # arrays: what Ray keeps outside of its own pickle, so that readers share one copy
    return text.getvalue(), [np.frombuffer(buffer, np.uint8) for buffer in buffers]


def unpacked(sent: Packed) -> Any:
    """The value, its tensors where they lie in the object store."""
    text, buffers = sent
    with warnings.catch_warnings():
        # the store is read-only, and so is everything that the algorithms are given
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        return unpack_message(Message(text, buffers))
