"""Messages between the processes of one run.

They are plain bytes, so that nothing is left behind in shared memory.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import Tensor

# bytes below which a tensor goes with the text of the message: a buffer costs two system calls
SMALL = 4096
# bytes from which a tensor is received into pages of its own
LARGE = 2**20


@dataclass(frozen=True)
class Message:
    """A pickled message, and beside it the memory of its large tensors.

    That memory is never copied into the text.
    """

    text: bytes
    # in the order the text means them
    buffers: Sequence[pickle.PickleBuffer | bytearray | mmap.mmap]


def pack_message(value: Any) -> Message:
    """A message between two processes of the same program; never written to a file."""
    text = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    # protocol 5 is the first that can leave buffers out of the text
    pickler = _Pickler(text, protocol=5, buffer_callback=buffers.append)
    pickler.dump(value)
    return Message(text.getvalue(), buffers)


def unpack_message(message: Message) -> Any:
    """The value again.

    Its tensors live in the buffers of the message: take it out once, then forget the message.
    """
    return pickle.loads(message.text, buffers=message.buffers)


def send(pipe: Connection, message: Message) -> None:
    """Write a message into a pipe."""
    views = [memoryview(buffer).cast("B") for buffer in message.buffers]
    sizes = [view.nbytes for view in views]
    # the sizes first: the reader makes room before the data come
    pipe.send_bytes(pickle.dumps(sizes))
    pipe.send_bytes(message.text)
    for view in views:
        _write(pipe.fileno(), view)


def receive(
    pipe: Connection,
    patience: float | None = None,
    stalled: Callable[[], None] = lambda: None,
) -> Message:
    """The next message of a pipe.

    EOFError or OSError where the other end is gone, also in the middle of it. stalled: called every
    `patience` seconds in which nothing comes, such as from a process that was stopped while it sent.
    """
    wait = partial(_await, pipe, patience, stalled)
    wait()
    sizes = pickle.loads(pipe.recv_bytes())
    wait()
    text = pipe.recv_bytes()
    buffers = []
    for size in sizes:
        # read into the memory that the tensor will have; Connection would copy twice
        buffer = _room(size)
        _read(pipe.fileno(), memoryview(buffer), wait)
        buffers.append(buffer)
    return Message(text, buffers)


def _await(pipe: Connection, patience: float | None, stalled: Callable[[], None]) -> None:
    # without patience the reading itself waits, as long as it takes
    while patience is not None and not pipe.poll(patience):
        stalled()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return reduce_tensor(value)


def reduce_tensor(value: Any) -> Any:
    """How a pickler is to write a tensor; NotImplemented for everything else."""
    # exactly Tensor: an nn.Parameter has its own way, which ends here with the tensor inside it
    if type(value) is not Tensor:
        return NotImplemented
    flat = value.detach().cpu().contiguous().reshape(-1)
    shape = tuple(value.shape)
    if flat.numel() == 0:
        return _tensor, (b"", value.dtype, shape)
    # as bytes, because bfloat16 has no numpy form; Any, because numpy's types do not say that it
    # has a buffer
    data: Any = flat.view(torch.uint8).numpy()
    if data.nbytes < SMALL:
        return _tensor, (data.tobytes(), value.dtype, shape)
    return _tensor, (pickle.PickleBuffer(data), value.dtype, shape)


def _tensor(
    data: bytes | bytearray | mmap.mmap,
    dtype: torch.dtype,
    shape: tuple[int, ...],
) -> Tensor:
    # by length: the truth value of an array of numpy is none
    if len(data) == 0:
        return torch.empty(shape, dtype=dtype)
    if isinstance(data, bytes):
        data = bytearray(data)  # tensors may be written to, bytes may not
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


def _room(size: int) -> bytearray | mmap.mmap:
    """Memory for a tensor that is on its way."""
    if size < LARGE:
        return bytearray(size)
    # Pages of its own, which go back to the system with the tensor. On the heap the little that
    # is kept of an update, its trace, would lie behind the delta, and the next delta, which does
    # not fit into what is left of the gap, on top: a driver grew by 1 GB with 200 clients.
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON)


def _write(descriptor: int, view: memoryview) -> None:
    while view:
        # a pipe may take less than it is given
        written = os.write(descriptor, view)
        view = view[written:]


def _read(descriptor: int, view: memoryview, wait: Callable[[], None]) -> None:
    while view:
        wait()
        count = os.readv(descriptor, [view])
        if count == 0:  # the other end is closed
            raise EOFError
        view = view[count:]
