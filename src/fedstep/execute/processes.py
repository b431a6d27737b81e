"""Several processes for the clients of a round, one torch thread each."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import perf_counter, process_time
from typing import Any

import torch

from fedstep.algorithm import Broadcast, Update
from fedstep.core.errors import InputError
from fedstep.execute.base import Executor, Local, blame
from fedstep.execute.lifeline import die_with_parent
from fedstep.execute.store import Store
from fedstep.execute.task import Task
from fedstep.execute.wire import Poster, dumps, loads

PIECES = 8  # messages a worker and round where jobs are many: few enough to be cheap, many enough to balance
LIVES = 3  # how often a job may lose its worker


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread inside: the same bits on machines of every size, and what `workers` of them would use each."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class Worker:
    """A process and this end of its pipe."""

    process: BaseProcess
    pipe: Connection
    piece: list[int] | None = None  # the numbers of the jobs it is at


@dataclass
class Processes(Executor):
    """Run another executor's jobs in `workers` processes, the largest jobs first, whoever is free taking the next.

    The jobs are cut and their updates summed exactly as the executor alone does it, so the bits are the same. Data are shared
    through the fork, what the server sends through shared memory; updates come back through a pipe. A worker that dies is
    replaced and its job begun anew. Close it, or use it in a `with`, when the run is over.
    """

    inner: Local
    workers: int = 2
    busy: float = 0.0  # seconds that the workers have spent on jobs so far
    idle: float = 0.0  # seconds that workers have waited during rounds
    crew: list[Worker] = field(default_factory=list, repr=False)
    _task: Task | None = field(default=None, repr=False)
    _poster: Poster | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"workers={self.workers}: give at least 1")
        if "fork" not in get_all_start_methods():
            raise InputError(f"workers={self.workers}: this system cannot fork; use workers=1")

    def __call__(
        self, task: Task, sent: Broadcast, cohort: Sequence[int], store: Store, probe: bool = False
    ) -> Iterator[Update]:
        jobs = self.inner.jobs(task, cohort)
        if not jobs:
            return
        self._ready(task, sent)
        begun, before, done = perf_counter(), self.busy, dict[int, Update]()
        queue, lost = deque(self._pieces(task, jobs)), dict[int, int]()
        try:
            following = 0
            while following < len(jobs):
                for worker in self.crew:
                    if worker.piece is None and queue:
                        self._give(worker, queue.popleft(), jobs, task, sent, store, probe)
                self._collect(jobs, queue, done, lost)
                while following in done:
                    update = done.pop(following)
                    store.save(jobs[following], update.memory)
                    following += 1
                    yield update
        except BaseException:
            self.close()  # what is under way belongs to a round that is over
            raise
        self.idle += max(0.0, self.workers * (perf_counter() - begun) - (self.busy - before))

    @property
    def cut(self) -> str:
        return self.inner.cut

    def close(self) -> None:
        """End the workers."""
        for worker in self.crew:
            worker.pipe.close()
            worker.process.kill()
        for worker in self.crew:
            worker.process.join()
        self.crew.clear()
        self._task = self._poster = None

    def _ready(self, task: Task, sent: Broadcast) -> None:
        if self._task is not task or self._poster is None or not self._poster.fits(sent):
            self.close()
            self._task, self._poster = task, Poster(sent)
        self._poster.write(sent)
        while len(self.crew) < self.workers:
            self.crew.append(self._hire())

    def _hire(self) -> Worker:
        ours, theirs = get_context("fork").Pipe()
        given = (
            self._task,
            self.inner,
            self.workers,
            self._poster,
            theirs,
            [w.pipe for w in self.crew] + [ours],
        )
        process = get_context("fork").Process(target=_serve, args=given, daemon=True)
        process.start()
        theirs.close()
        return Worker(process, ours)

    def _pieces(self, task: Task, jobs: list[list[int]]) -> list[list[int]]:
        """Numbers of jobs in the order they are handed out: the most work first."""
        work = [sum(task.plan.length(task.federation.size(c)) for c in job) for job in jobs]
        order = sorted(range(len(jobs)), key=lambda k: -work[k])
        size = max(1, len(jobs) // (self.workers * PIECES))
        return [order[i : i + size] for i in range(0, len(order), size)]

    def _give(
        self,
        worker: Worker,
        piece: list[int],
        jobs: list[list[int]],
        task: Task,
        sent: Broadcast,
        store: Store,
        probe: bool,
    ) -> None:
        memories = [store.load(task, sent, jobs[k]) for k in piece]
        worker.piece = piece
        with suppress(OSError):  # it is dead: found out when its answer is waited for
            worker.pipe.send_bytes(dumps((sent.round, [jobs[k] for k in piece], memories, probe)))

    def _collect(
        self,
        jobs: list[list[int]],
        queue: deque[list[int]],
        done: dict[int, Update],
        lost: dict[int, int],
    ) -> None:
        """Wait for an answer, or for the death of a worker."""
        at_work = [w for w in self.crew if w.piece is not None]
        ready = wait([w.pipe for w in at_work])
        for worker in at_work:
            if worker.pipe not in ready or worker.piece is None:
                continue
            try:
                answer = loads(worker.pipe.recv_bytes())
            except (EOFError, OSError):
                self._replace(worker, jobs, queue, lost)
                continue
            (seconds, told), updates, error = answer
            if error is not None:
                raise error
            self.busy += seconds
            if self._task is not None:
                self._task.profiler.merge(told)
            done.update(zip(worker.piece, updates, strict=True))
            worker.piece = None

    def _replace(
        self, worker: Worker, jobs: list[list[int]], queue: deque[list[int]], lost: dict[int, int]
    ) -> None:
        piece = worker.piece or []
        worker.process.join()
        worker.pipe.close()
        for k in piece:
            lost[k] = lost.get(k, 0) + 1
            if lost[k] >= LIVES:
                who, code = ", ".join(map(str, jobs[k])), worker.process.exitcode
                raise InputError(
                    f"client {who}: its worker died {LIVES} times (exit code {code}), out of memory? use fewer workers"
                )
        self.crew.remove(worker)
        self.crew.append(self._hire())
        queue.extendleft([k] for k in piece)


def _serve(
    task: Task,
    inner: Local,
    workers: int,
    poster: Poster,
    pipe: Connection,
    others: list[Connection],
) -> None:
    """The life of a worker: jobs in, updates out, until the pipe is closed."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is asked to stop, not we
    for other in others:
        other.close()  # or the death of the parent would not be seen
    torch.set_num_threads(1)
    inner = inner.one_of(workers)
    task.profiler.drain()  # what the parent had counted before the fork is the parent's
    while True:
        try:
            round, jobs, memories, probe = loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        clock, updates, error = process_time(), list[Update](), None
        try:
            for clients, memory in zip(jobs, memories, strict=True):
                with blame(clients, round):
                    update = inner.run(task, poster.read(round), clients, memory, probe)
                    updates.append(_whole(update, memory))
        except Exception as raised:
            error = raised
        try:
            pipe.send_bytes(
                _answer((process_time() - clock, task.profiler.drain()), updates, error)
            )
        except OSError:
            return


def _whole(update: Update, memory: dict[str, Any]) -> Update:
    return Update(
        update.aggregate, {**memory, **update.memory} if update.memory else {}, update.trace
    )


def _answer(
    seconds: tuple[float, dict[str, float]], updates: list[Update], error: Exception | None
) -> bytes:
    if error is None:
        return dumps((seconds, updates, None))
    try:
        sent = dumps((seconds, [], error))
        loads(sent)  # some exceptions can be written but not read
        return sent
    except Exception:
        told = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", []):
            told.add_note(note)
        return dumps((seconds, [], told))
