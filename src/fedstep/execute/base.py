"""What every executor is: it runs the clients of a round, and is closed when the run is over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self, TypeAlias

from torch import Tensor

from fedstep.algorithm import Broadcast, LocalRound, Update
from fedstep.core.types import Batch, Forward
from fedstep.core.vec import State
from fedstep.execute.store import Store
from fedstep.execute.task import Task


class Executor(ABC):
    """Who runs the clients of a round, and where.

    Use it in a `with`, or close it, when the run is over. A closed executor can be called again: it
    takes up anew what it needs.
    """

    @abstractmethod
    def __call__(
        self,
        task: Task,
        sent: Broadcast,
        cohort: Sequence[int],
        store: Store,
        probe: bool = False,
    ) -> Iterator[Update]:
        """Updates that sum to the cohort's, always cut and ordered in the same way.

        `probe`: their gradients instead.
        """

    @property
    def cut(self) -> str:
        """How the cohort is cut into updates.

        Bits depend on this, and on nothing else that an executor is.
        """
        return repr(self)

    def close(self) -> None:
        """Let go of what this executor holds besides memory of this process.

        Nothing, where a leaf does not say otherwise.
        """
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


Job: TypeAlias = Sequence[int]  # clients whose updates are summed to one


class Local(Executor):
    """Runs a cohort in this process, job by job.

    A leaf says how the cohort is cut and how a job is run.
    """

    @abstractmethod
    def jobs(self, task: Task, cohort: Sequence[int]) -> list[list[int]]:
        """The cohort cut into jobs, always in the same way, whoever will run them."""

    @abstractmethod
    def run(
        self,
        task: Task,
        sent: Broadcast,
        clients: Sequence[int],
        memory: State,
        probe: bool,
    ) -> Update:
        """One job; memories have the clients on their first axis, also in the update."""

    def stacks(self, task: Task, jobs: Sequence[Job]) -> list[list[Job]]:
        """Neighbouring jobs that are run at once; here each alone."""
        return [[job] for job in jobs]

    def run_stack(
        self,
        task: Task,
        sent: Broadcast,
        jobs: Sequence[Job],
        memories: Sequence[State],
        probe: bool,
    ) -> list[Update]:
        """The jobs of a stack: to the bit what `run` gives for each."""
        updates = []
        for clients, memory in zip(jobs, memories, strict=True):
            updates.append(self.run(task, sent, clients, memory, probe))
        return updates

    def one_of(self, workers: int) -> Local:
        """This executor as each of several workers on one machine has it.

        That is, with its share of what the machine can give.
        """
        return self

    def __call__(
        self,
        task: Task,
        sent: Broadcast,
        cohort: Sequence[int],
        store: Store,
        probe: bool = False,
    ) -> Iterator[Update]:
        for jobs in self.stacks(task, self.jobs(task, cohort)):
            # only the jobs: what the consumer of the updates raises is not the clients' fault
            with blame(clients_of(jobs), sent.round):
                memories = [store.load(task, sent, clients) for clients in jobs]
                updates = self.run_stack(task, sent, jobs, memories, probe)
                _save(store, jobs, memories, updates)
                del memories  # before those of the next jobs are read
            # one after another is let go: a delta is as large as the model
            updates.reverse()
            while updates:
                yield updates.pop()


def _save(
    store: Store,
    jobs: Sequence[Job],
    memories: Sequence[State],
    updates: Sequence[Update],
) -> None:
    """Keep what jobs remember: they return what they changed, a store keeps whole memories."""
    for clients, memory, update in zip(jobs, memories, updates, strict=True):
        store.save(clients, {**memory, **update.memory})


def run_clients(
    task: Task,
    sent: Broadcast,
    memory: State,
    model: Forward,
    batches: Iterable[tuple[Batch, Tensor | None]],
    samples: Tensor,
    probe: bool,
) -> LocalRound:
    """The algorithm's part of a job, seen by the profiler."""
    algorithm = task.profiler.wrap_algorithm(task.algorithm)
    call = algorithm.reply
    if probe:
        call = algorithm.probe_reply
    return call(
        sent,
        memory,
        task.profiler.wrap_model(model),
        batches,
        samples.to(sent.x.device),
    )


def clients_of(jobs: Sequence[Job]) -> list[int]:
    """The clients of several jobs, one job after another."""
    return [client for job in jobs for client in job]


@contextmanager
def blame(clients: Sequence[int], round: int) -> Iterator[None]:
    """Add to whatever is raised inside where it happened."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in round {round}, {named_clients(clients)}")
        raise


def named_clients(clients: Sequence[int]) -> str:
    """The clients of a job as an error message names them: `client 3`, `clients 3, 5`."""
    numbers = ", ".join(map(str, clients))
    if len(clients) == 1:
        return f"client {numbers}"
    return f"clients {numbers}"
