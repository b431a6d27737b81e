"""Jobs handed out to workers of any kind, and their updates in a fixed order.

What is common to processes, actors of a cluster and whoever else can run a job: who gets which
piece, in which order updates are given on, and what happens when a worker dies. What differs is a
`Crew`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Generic

from fedstep.algorithm import Broadcast, Update
from fedstep.core.errors import InputError
from fedstep.execute.base import Local, named_clients
from fedstep.execute.pieces import Answer, Died, Joined, Piece, PieceFinished, W
from fedstep.execute.store import Store
from fedstep.execute.task import Task

PIECES = 8  # a worker and round where jobs are many: few enough to be cheap, many enough to balance
# bytes of deltas that may wait in the driver for their turn: those of larger rounds are handed out
# in their order, and nobody works far ahead of the one that is waited for
WAITING = 32 * 2**20
LIVES = 3  # how often a job may lose its worker
# seconds without an answer after which somebody wants to know who is being waited for
PATIENCE = 60.0
LOG = logging.getLogger("fedstep")


class Crew(ABC, Generic[W]):
    """Workers of one kind. A leaf hires, sends, listens and buries; `dispatch` decides."""

    def __init__(self, workers: int, patience: float = PATIENCE) -> None:
        self.workers = workers  # how many there may be; never more than there are jobs
        self.patience = patience
        self.busy = 0.0  # seconds that workers have spent on jobs so far
        self.idle = 0.0  # seconds that workers have waited during rounds
        self.hired: list[W] = []
        self.free: list[W] = []  # those of them that wait for a piece
        self.deaths_at_rest = 0  # of workers without a piece, since the last piece that was done

    @abstractmethod
    def hire(self) -> W:
        """A new worker. Returns at once; `answers` says when it has joined."""

    @abstractmethod
    def give(self, worker: W, piece: Piece) -> None:
        """Send a piece. That a worker is dead is no error here: `answers` says so."""

    @abstractmethod
    def answers(self, timeout: float) -> list[Answer[W]]:
        """What has happened since the last call; waits for something `timeout` seconds at most."""

    @abstractmethod
    def bury(self, worker: W) -> None:
        """End a worker, whatever it is doing, and forget it."""

    def describe(self, worker: W) -> str:
        """The worker as a message names it."""
        return str(worker)

    def is_stopped(self, worker: W) -> bool:
        """Whether a worker is known to do nothing until somebody wakes it."""
        return False

    def grow(self, jobs: int) -> None:
        """Hire up to the number of workers, but no more than there are jobs."""
        while len(self.hired) < min(self.workers, jobs):
            self.hired.append(self.hire())

    def dismiss(self, worker: W) -> None:
        """Take a worker off the list and end it."""
        # off the list first: an answer that it has sent already is then nobody's
        self.hired.remove(worker)
        if worker in self.free:
            self.free.remove(worker)
        self.bury(worker)

    def close(self) -> None:
        """End all workers."""
        # a copy: `dismiss` takes them off the list that is walked through
        for worker in list(self.hired):
            self.dismiss(worker)


def dispatch(
    crew: Crew[W],
    inner: Local,
    task: Task,
    sent: Broadcast,
    cohort: Sequence[int],
    store: Store,
    probe: bool = False,
) -> Iterator[Update]:
    """The updates of a cohort, cut and ordered as by the inner executor alone: the same bits.

    Pieces are handed out with the most work first, the next to whoever is free. Work begins with
    the first worker that has joined. When a worker dies another one is hired and the jobs begin
    anew, one by one, so that a job that kills its workers is told from its neighbours: after three
    deaths its clients are named.
    """
    jobs = inner.jobs(task, cohort)
    if not jobs:
        return
    round = _Round(crew, task, sent, jobs, store, probe)
    try:
        yield from round.updates()
    except BaseException:
        crew.close()  # what is under way belongs to a round that is over
        raise


def largest_first(
    task: Task,
    jobs: Sequence[Sequence[int]],
    workers: int,
) -> list[list[int]]:
    """Pieces as numbers of jobs, in the order they are handed out: the most work first."""
    work = []
    for clients in jobs:
        # steps, not samples: where their number is fixed a large client costs no more
        sizes = task.federation.sizes_of(clients).tolist()
        work.append(sum(task.plan.length(samples) for samples in sizes))
    # the sort is stable: jobs of equal work keep their order
    order = sorted(range(len(jobs)), key=lambda number: -work[number])
    workers_needed = min(workers, len(jobs))
    size = max(1, len(jobs) // (workers_needed * PIECES))
    pieces = []
    for first in range(0, len(order), size):
        pieces.append(order[first : first + size])
    return pieces


def in_order(
    jobs: Sequence[Sequence[int]],
    workers: int,
    ahead: int,
) -> list[list[int]]:
    """Pieces as numbers of jobs, in their order, each small enough for all workers to have one."""
    size = max(1, min(ahead, len(jobs) // PIECES) // workers)
    pieces = []
    for first in range(0, len(jobs), size):
        last = min(first + size, len(jobs))
        pieces.append(list(range(first, last)))
    return pieces


class _Round(Generic[W]):
    """The state of one round: what waits, who is at what, and what is done but not yet its turn."""

    def __init__(
        self,
        crew: Crew[W],
        task: Task,
        sent: Broadcast,
        jobs: list[list[int]],
        store: Store,
        probe: bool,
    ) -> None:
        self.crew = crew
        self.task = task
        self.sent = sent
        self.jobs = jobs
        self.store = store
        self.probe = probe
        self.following = 0  # the number of the job whose update comes next
        # how many jobs may be handed out from there on
        self.ahead = max(crew.workers, WAITING // task.update_bytes)
        if len(jobs) <= self.ahead:
            pieces = largest_first(task, jobs, crew.workers)
        else:
            pieces = in_order(jobs, crew.workers, self.ahead)
        self.queue = deque(pieces)
        self.at_work: dict[W, Piece] = {}
        self.done: dict[int, Update] = {}  # by the number of the job, until it is its turn
        self.deaths: Counter[int] = Counter()  # of workers at a job, by its number
        self.late: dict[W, bool] = {}  # those that a line has named; whether as stopped

    def updates(self) -> Iterator[Update]:
        begun = perf_counter()
        busy_before = self.crew.busy
        self.crew.grow(len(self.jobs))
        while self.following < len(self.jobs):
            self._hand_out()
            self._listen()
            # sums of floats depend on their order: an early update waits for those before it
            while self.following in self.done:
                # without a name: what it is added to holds it no longer than it must, nor does this
                yield self._next_update()
        worked = self.crew.busy - busy_before
        available = self.crew.workers * (perf_counter() - begun)
        # clocks of several processes: the difference may come out a little below zero
        self.crew.idle += max(0.0, available - worked)

    def _next_update(self) -> Update:
        update = self.done.pop(self.following)
        # here and not in the worker: only this process has the store
        self.store.save(self.jobs[self.following], update.memory)
        self.following += 1
        return update

    def _hand_out(self) -> None:
        while self.crew.free and self.queue and self._near():
            worker = self.crew.free.pop(0)
            numbers = self.queue.popleft()
            piece = self._piece(numbers)
            self.at_work[worker] = piece
            self.crew.give(worker, piece)

    def _near(self) -> bool:
        """Whether the next piece may be begun: its updates would wait for all before them."""
        # the job that is waited for is at work or in front of the queue: somebody always may
        return max(self.queue[0]) < self.following + self.ahead or not self.at_work

    def _piece(self, numbers: list[int]) -> Piece:
        jobs = [self.jobs[number] for number in numbers]
        # loaded now, not at the start of the round: only what is under way lies in memory
        memories = [self.store.load(self.task, self.sent, clients) for clients in jobs]
        return Piece(
            round=self.sent.round,
            probe=self.probe,
            numbers=tuple(numbers),
            jobs=tuple(tuple(clients) for clients in jobs),
            memories=tuple(memories),
        )

    def _listen(self) -> None:
        answers = self.crew.answers(self.crew.patience)
        if not answers:
            self._say_who_is_waited_for()
        for answer in answers:
            if answer.worker not in self.crew.hired:
                continue  # it was given up, and another one is at its piece
            if isinstance(answer, Joined):
                self.crew.free.append(answer.worker)
            elif isinstance(answer, PieceFinished):
                self._finished(answer)
            elif isinstance(answer, Died):
                self._died(answer)
            else:
                raise answer.error

    def _finished(self, answer: PieceFinished[W]) -> None:
        piece = self.at_work.pop(answer.worker)
        self.done.update(zip(piece.numbers, answer.updates, strict=True))
        self.task.profiler.merge(answer.profile)
        self.late.pop(answer.worker, None)
        self.crew.busy += answer.seconds
        self.crew.deaths_at_rest = 0
        self.crew.free.append(answer.worker)

    def _died(self, answer: Died[W]) -> None:
        # buried before anything is raised: a dead process still holds a pipe
        self.crew.dismiss(answer.worker)
        piece = self.at_work.pop(answer.worker, None)
        if piece is None:
            self._died_at_rest(answer)
        else:
            self._died_at_work(answer, piece)
        self.crew.grow(len(self.jobs))

    def _died_at_work(self, answer: Died[W], piece: Piece) -> None:
        for number in piece.numbers:
            self.deaths[number] += 1
            if self.deaths[number] >= LIVES:
                raise InputError(
                    f"{named_clients(self.jobs[number])}: its worker died {LIVES} times "
                    f"({answer.reason}), out of memory? use fewer workers"
                )
        # one by one and first: the next death then blames one job, and the round does not end on it
        self.queue.extendleft([number] for number in piece.numbers)

    def _died_at_rest(self, answer: Died[W]) -> None:
        """No job can be blamed; but workers that never get to a job must not be hired for ever."""
        self.crew.deaths_at_rest += 1
        if self.crew.deaths_at_rest >= LIVES * self.crew.workers:
            raise InputError(
                f"{self.crew.deaths_at_rest} workers died before they had anything to do "
                f"({answer.reason}); use fewer workers"
            )

    def _say_who_is_waited_for(self) -> None:
        """One line a piece: a client may be slow, and a process may be stopped."""
        names = []
        for worker, piece in self.at_work.items():
            stopped = self.crew.is_stopped(worker)
            # once, and once more where a slow one has been stopped since
            if worker in self.late and (self.late[worker] or not stopped):
                continue
            names.append(f"{named_clients(piece.clients)} in {self.crew.describe(worker)}")
            self.late[worker] = stopped
        if not self.at_work:
            names.append("the first worker")
        if names:
            text = "round %d: no answer for %g s, waiting for %s"
            LOG.warning(text, self.sent.round, self.crew.patience, "; ".join(names))
