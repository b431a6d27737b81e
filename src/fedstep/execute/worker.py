"""The life of a forked worker: pieces in, replies out."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from time import perf_counter

import torch

from fedstep.algorithm import Broadcast, Update
from fedstep.core.vec import State
from fedstep.execute.base import Local, blame, clients_of
from fedstep.execute.children import end_with_parent
from fedstep.execute.heap import Heap
from fedstep.execute.pieces import Piece
from fedstep.execute.shared_broadcast import SharedBroadcast
from fedstep.execute.task import Task
from fedstep.execute.wire import Message, pack_message, receive, send, unpack_message


@dataclass(frozen=True)
class WorkerReply:
    """What a worker sends back for a piece."""

    updates: list[Update]  # none where there is an error
    error: Exception | None
    seconds: float  # that the piece took, by the clock
    profile: dict[str, float]  # seconds by kind, where they are measured


def serve_pieces(
    task: Task,
    inner: Local,
    broadcast: SharedBroadcast,
    pipe: Connection,
    inherited: list[Connection],
) -> None:
    """The life of a worker: jobs in, updates out, until the pipe is closed."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is asked to stop, not we
    for other in inherited:
        other.close()  # or the death of the parent would not be seen
    torch.set_num_threads(1)
    task.profiler.drain()  # what the parent had counted before the fork is the parent's
    heap = Heap(task.update_bytes)
    while True:
        try:
            piece: Piece = unpack_message(receive(pipe))
            sent = broadcast.read(piece.round)
            reply = run_piece(task, inner, sent, piece)
            jobs = len(piece.jobs)
            message = packed_reply(reply)
            del piece, reply  # the buffers of the message are theirs
            send(pipe, message)
            del message
            heap.used(jobs)
        except (EOFError, OSError):
            return


def run_piece(
    task: Task,
    inner: Local,
    sent: Broadcast,
    piece: Piece,
) -> WorkerReply:
    """The jobs of a piece one after another; what a client raises is part of the reply."""
    begun = perf_counter()
    updates: list[Update] = []
    error = None
    try:
        for jobs in inner.stacks(task, piece.jobs):
            # stacks keep the order of the jobs
            first = len(updates)
            memories = piece.memories[first : first + len(jobs)]
            with blame(clients_of(jobs), piece.round):
                done = inner.run_stack(task, sent, jobs, memories, piece.probe)
            for update, memory in zip(done, memories, strict=True):
                updates.append(_with_whole_memory(update, memory))
    except Exception as raised:
        error = raised
        updates = []
    return WorkerReply(
        updates=updates,
        error=error,
        seconds=perf_counter() - begun,
        profile=task.profiler.drain(),
    )


def _with_whole_memory(update: Update, memory: State) -> Update:
    """A store keeps whole memories: what the job did not change goes back with what it did."""
    if not update.memory:
        return update
    return replace(update, memory={**memory, **update.memory})


def packed_reply(reply: WorkerReply) -> Message:
    """As it travels; an exception that cannot travel goes as its text."""
    if reply.error is None:
        return pack_message(reply)
    try:
        unpack_message(pack_message(reply))  # some exceptions can be written but not read
        return pack_message(reply)
    except Exception:
        kind = type(reply.error).__name__
        plain = RuntimeError(f"{kind}: {reply.error}")
        # the notes name round and clients
        for note in getattr(reply.error, "__notes__", []):
            plain.add_note(note)
        return pack_message(replace(reply, error=plain))
