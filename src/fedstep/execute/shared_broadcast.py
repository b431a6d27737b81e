"""What the server sends, in memory that several processes share."""

from __future__ import annotations

from mmap import mmap

import torch
from torch import Tensor

from fedstep.algorithm import Broadcast
from fedstep.core.vec import prefixed, under


class SharedBroadcast:
    """What the server sends, in memory that the processes forked later share.

    It is written once a round and read by all.
    """

    def __init__(self, sent: Broadcast) -> None:
        self.fields = {}
        for name, value in _named(sent).items():
            self.fields[name] = _shared(value)

    def fits(self, sent: Broadcast) -> bool:
        """Whether this broadcast has the same tensors as the first."""
        # the workers hold the memory since their fork: it cannot grow any more
        return _form(_named(sent)) == _form(self.fields)

    def write(self, sent: Broadcast) -> None:
        # workers read only while they are at a piece, and pieces are given out after this
        for name, value in _named(sent).items():
            self.fields[name].copy_(value)

    def read(self, round: int) -> Broadcast:
        return Broadcast(
            self.fields["x"],
            under("shared.", self.fields),
            round,
        )


def _named(sent: Broadcast) -> dict[str, Tensor]:
    shared = {name: value.detach() for name, value in sent.shared.items()}
    return {"x": sent.x.detach(), **prefixed("shared.", shared)}


def _form(
    fields: dict[str, Tensor],
) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (value.shape, value.dtype) for name, value in fields.items()}


def _shared(like: Tensor) -> Tensor:
    if like.numel() == 0:
        return torch.empty_like(like)  # mmap refuses 0 bytes
    # anonymous: it has no name that could be left behind
    memory = mmap(-1, like.nbytes)
    return torch.frombuffer(memory, dtype=like.dtype).reshape(like.shape)
