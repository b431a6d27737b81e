"""Several processes for the clients of a round, one torch thread each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from fedstep.algorithm import Broadcast, Update
from fedstep.core.errors import InputError
from fedstep.execute.base import Executor, Local
from fedstep.execute.children import GRACE, is_stopped
from fedstep.execute.crew import (
    LOG,
    PATIENCE,
    Crew,
    dispatch,
)
from fedstep.execute.pieces import (
    Answer,
    Died,
    Failed,
    Joined,
    Piece,
    PieceFinished,
)
from fedstep.execute.shared_broadcast import SharedBroadcast
from fedstep.execute.store import Store
from fedstep.execute.task import Task
from fedstep.execute.wire import pack_message, receive, send, unpack_message
from fedstep.execute.worker import WorkerReply, serve_pieces


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread inside: the same bits on machines of every size.

    It is also what each of several workers uses.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class Processes(Executor):
    """Run another executor's jobs in `workers` processes.

    The largest jobs come first, and whoever is free takes the next. The jobs are cut and their
    updates summed exactly as the executor alone does it, so the bits are the same. Data are shared
    through the fork, what the server sends through shared memory; updates come back through a pipe.

    A worker that dies is replaced and its job begun anew. There are never
    more processes than jobs. Close it, or use it in a `with`, when the run is over. After
    `patience` seconds without an answer a line says who is being waited for.
    """

    inner: Local  # cuts the cohort and runs the jobs
    workers: int = 2
    patience: float = field(default=PATIENCE, repr=False)
    # hired by the first call, when it is known what they are to work on
    crew: ProcessCrew | None = field(default=None, repr=False, compare=False)
    # seconds that the workers of closed crews have waited
    _idle_before: float = field(default=0.0, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"workers={self.workers}: give at least 1")
        if "fork" not in get_all_start_methods():
            raise InputError(f"workers={self.workers}: this system cannot fork; use workers=1")

    def __call__(
        self,
        task: Task,
        sent: Broadcast,
        cohort: Sequence[int],
        store: Store,
        probe: bool = False,
    ) -> Iterator[Update]:
        crew = self._crew_for(task, sent)
        # before any piece is handed out: a piece says the round, and means this broadcast
        crew.broadcast.write(sent)
        yield from dispatch(
            crew,
            self.inner,
            task,
            sent,
            cohort,
            store,
            probe,
        )

    @property
    def cut(self) -> str:
        return self.inner.cut

    @property
    def idle(self) -> float:
        """Seconds that workers have waited during rounds so far."""
        if self.crew is None:
            return self._idle_before
        return self._idle_before + self.crew.idle

    def close(self) -> None:
        """End the workers."""
        if self.crew is not None:
            self._idle_before += self.crew.idle
            self.crew.close()
            self.crew = None

    def _crew_for(self, task: Task, sent: Broadcast) -> ProcessCrew:
        """The crew of this task.

        Workers know the task from their fork: another task needs other workers.
        """
        if self.crew is None or not self.crew.knows(task, sent):
            self.close()
            self.crew = ProcessCrew(
                task,
                self.inner,
                self.workers,
                sent,
                self.patience,
            )
        return self.crew


@dataclass(eq=False)
class WorkerProcess:
    """A process and this end of its pipe."""

    process: BaseProcess
    pipe: Connection  # both ways: pieces out, replies in


class ProcessCrew(Crew[WorkerProcess]):
    """Forked processes, each at the other end of a pipe."""

    def __init__(
        self,
        task: Task,
        inner: Local,
        workers: int,
        sent: Broadcast,
        patience: float = PATIENCE,
    ) -> None:
        super().__init__(workers, patience)
        if sent.x.device.type != "cpu":
            raise InputError(
                f"workers={workers}: worker processes compute on the CPU, and the model is on "
                f"{sent.x.device}; use workers=1, or device='cpu'"
            )
        self.task = task
        # no round has more jobs than there are clients, and there are never more workers than jobs
        self.inner = inner.one_of(min(workers, len(task.federation)))
        self.broadcast = SharedBroadcast(sent)
        self._new: list[WorkerProcess] = []  # hired, and not yet said to have joined

    def knows(self, task: Task, sent: Broadcast) -> bool:
        """Whether these workers were forked for this task, and such broadcasts."""
        # `is`: an equal task may have another profiler
        return self.task is task and self.broadcast.fits(sent)

    def hire(self) -> WorkerProcess:
        fork = get_context("fork")
        ours, theirs = fork.Pipe()
        # a fork has copies of all our ends of pipes; it is told which, in order to close them
        inherited = [worker.pipe for worker in self.hired]
        process = fork.Process(
            target=serve_pieces,
            args=(self.task, self.inner, self.broadcast, theirs, [*inherited, ours]),
            daemon=True,
        )
        process.start()
        theirs.close()  # or the death of the worker would not be seen
        worker = WorkerProcess(process, ours)
        self._new.append(worker)
        return worker

    def give(self, worker: WorkerProcess, piece: Piece) -> None:
        if is_stopped(worker.process.pid):
            # a large piece fills the pipe, and then this process waits in the middle of sending
            LOG.warning("round %d: waiting for %s", piece.round, self.describe(worker))
        with suppress(OSError):  # it is dead: seen when its answer is waited for
            send(worker.pipe, pack_message(piece))

    def answers(self, timeout: float) -> list[Answer[WorkerProcess]]:
        if self._new:
            # a pipe holds what is sent before the process reads: a forked worker has joined at once
            joined = self._new
            self._new = []
            return [Joined(worker) for worker in joined]
        ready = wait([worker.pipe for worker in self.hired], timeout)
        return [self._answer(worker) for worker in self.hired if worker.pipe in ready]

    def _answer(self, worker: WorkerProcess) -> Answer[WorkerProcess]:
        try:
            message = receive(worker.pipe, self.patience, partial(self._say_stalled, worker))
            reply: WorkerReply = unpack_message(message)
        except (EOFError, OSError):
            worker.process.join(GRACE)
            return Died(worker, f"exit code {worker.process.exitcode}")
        if reply.error is not None:
            return Failed(worker, reply.error)
        return PieceFinished(worker, reply.updates, reply.seconds, reply.profile)

    def _say_stalled(self, worker: WorkerProcess) -> None:
        # begun and not ended: nobody else is listened to in the meantime
        LOG.warning("waiting for the rest of an answer of %s", self.describe(worker))

    def bury(self, worker: WorkerProcess) -> None:
        if worker in self._new:
            self._new.remove(worker)
        worker.pipe.close()
        # killed, not asked: it may be stopped, or in the middle of a client
        worker.process.kill()
        worker.process.join(GRACE)

    def close(self) -> None:
        for worker in self.hired:
            worker.process.kill()  # all at once: they are then waited for one by one
        super().close()

    def is_stopped(self, worker: WorkerProcess) -> bool:
        return is_stopped(worker.process.pid)

    def describe(self, worker: WorkerProcess) -> str:
        pid = worker.process.pid
        if is_stopped(pid):
            return f"process {pid}, which is stopped (kill -CONT {pid})"
        return f"process {pid}"
