"""Messages between the processes of one run: plain bytes, so that nothing is left behind in shared memory."""

from __future__ import annotations

import io
import pickle
from mmap import mmap
from typing import Any

import torch
from torch import Tensor

from fedstep.algorithm import Broadcast
from fedstep.core.vec import prefixed, under


def dumps(message: Any) -> bytes:
    """A message between two processes of the same program; never written to a file."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(message)
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    """The message again."""
    return pickle.loads(data)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return NotImplemented
        flat = value.detach().cpu().contiguous().reshape(-1)
        data = bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""
        return _tensor, (data, value.dtype, tuple(value.shape))


def _tensor(data: bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


class Poster:
    """What the server sends, in memory that the processes forked later share: written once a round, read by all."""

    def __init__(self, sent: Broadcast) -> None:
        self.fields = {name: _shared(value) for name, value in _named(sent).items()}

    def fits(self, sent: Broadcast) -> bool:
        """Whether this broadcast has the same tensors as the first."""
        kinds = {name: (v.shape, v.dtype) for name, v in _named(sent).items()}
        return kinds == {name: (v.shape, v.dtype) for name, v in self.fields.items()}

    def write(self, sent: Broadcast) -> None:
        for name, value in _named(sent).items():
            self.fields[name].copy_(value)

    def read(self, round: int) -> Broadcast:
        return Broadcast(self.fields["x"], under("shared.", self.fields), round)


def _named(sent: Broadcast) -> dict[str, Tensor]:
    return {
        "x": sent.x.detach(),
        **prefixed("shared.", {k: v.detach() for k, v in sent.shared.items()}),
    }


def _shared(like: Tensor) -> Tensor:
    if like.numel() == 0:
        return torch.empty_like(like)
    memory = mmap(
        -1, like.numel() * like.element_size()
    )  # anonymous: it has no name that could be left behind
    return torch.frombuffer(memory, dtype=like.dtype).reshape(like.shape)
