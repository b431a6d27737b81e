"""The clients of a round on a Ray cluster (extra `ray`).

Who gets which piece and what happens when a worker dies is `execute/crew.py`'s, as for processes;
here are only actors in the place of processes. Data and model go to each node once, through Ray's
object store, and are read there without a copy. Memories stay with the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np
import torch

from fedstep.algorithm import Broadcast, Update
from fedstep.core.errors import InputError
from fedstep.data.federation import Federation
from fedstep.data.parts import partition_hash
from fedstep.execute.base import Executor, Local
from fedstep.execute.crew import LOG, Crew, dispatch
from fedstep.execute.pieces import Answer, Died, Failed, Joined, Piece, PieceFinished
from fedstep.execute.ray_session import RaySession, ray
from fedstep.execute.ray_wire import Packed, packed, unpacked
from fedstep.execute.store import Store
from fedstep.execute.task import Task
from fedstep.execute.worker import WorkerReply, packed_reply, run_piece

STARTING = 180.0  # seconds: a worker imports torch, on a machine that may be busy
# how a dead worker or node shows itself
GONE = (
    ray.exceptions.RayActorError,
    ray.exceptions.ObjectLostError,
    ray.exceptions.GetTimeoutError,
)
FETCH = 60.0  # seconds that an answer which is there may take to come over the network


@dataclass
class Ray(Executor):
    """Run another executor's jobs on the workers of a Ray cluster: the same bits as alone.

    workers: None for as many as the cluster has CPUs. address: of a running cluster; None starts
    one on this machine, listening on loopback alone, with a token. cpus, gpus: of each worker.
    load: each worker loads the data itself, in the place of the object store; it must give what
    the driver has. patience: seconds without any worker after which the run stops.
    """

    inner: Local  # cuts the cohort and runs the jobs
    workers: int | None = None
    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    load: Callable[[], Federation] | None = None
    patience: float = STARTING
    crew: RayCrew | None = field(default=None, repr=False, compare=False)
    _session: RaySession | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(f"Ray(workers={self.workers}): give at least 1")
        if not self.cpus > 0:
            raise InputError(f"Ray(cpus={self.cpus}): a worker needs some; give 1")

    def __call__(
        self,
        task: Task,
        sent: Broadcast,
        cohort: Sequence[int],
        store: Store,
        probe: bool = False,
    ) -> Iterator[Update]:
        if self._session is None:
            self._session = RaySession.open(self.address)
        if self.crew is None or self.crew.task is not task:
            self._dismiss()
            self.crew = RayCrew(self, task)
        # asked for every round: a node that has joined since is used
        self.crew.workers = self.workers or _places(self.cpus)
        # before any piece is handed out: once a round, however many workers there are
        self.crew.broadcast = ray.put(packed(sent))
        yield from dispatch(self.crew, self.inner, task, sent, cohort, store, probe)

    @property
    def cut(self) -> str:
        return self.inner.cut

    def close(self) -> None:
        """End the workers, and the cluster if it was started here."""
        self._dismiss()
        if self._session is not None:
            self._session.close()
            self._session = None

    def _dismiss(self) -> None:
        if self.crew is not None:
            self.crew.close()
            self.crew = None


@dataclass(eq=False)
class RayWorker:
    """An actor, and the answer it owes."""

    actor: Any
    owed: Any  # a reference to what comes; None: nothing
    joined: bool = False


class RayCrew(Crew[RayWorker]):
    """Actors of a cluster. Deaths are counted by `dispatch`, not by Ray."""

    def __init__(self, settings: Ray, task: Task) -> None:
        super().__init__(settings.workers or 1, settings.patience)
        self.settings = settings
        self.task = task
        self.broadcast: Any = None
        self._alone_since = monotonic()  # since when no worker has been ready
        federation: Federation | None = task.federation
        if settings.load is not None:
            federation = None
        kit = _Kit(task, settings.inner, federation, settings.load)
        # one object for all: a node fetches it once, and its workers read it where it lies
        self._kit = ray.put(packed(kit))
        self._expected = _data_digest(task.federation)
        self._machines: set[str] = set()

    def hire(self) -> RayWorker:
        # no restarts by Ray: they would begin a job anew without anybody knowing
        hired = ray.remote(_Actor).options(
            num_cpus=self.settings.cpus,
            num_gpus=self.settings.gpus,
            max_restarts=0,
            max_task_retries=0,
        )
        actor = hired.remote(self._kit, len(self.hired) + 1)
        return RayWorker(actor, owed=actor.ready.remote())

    def give(self, worker: RayWorker, piece: Piece) -> None:
        worker.owed = worker.actor.work.remote(self.broadcast, packed(piece))

    def answers(self, timeout: float) -> list[Answer[RayWorker]]:
        owing = {worker.owed: worker for worker in self.hired if worker.owed is not None}
        # never ray.get without a limit: for more workers than there are CPUs it waits for ever
        ready, _ = ray.wait(list(owing), num_returns=1, timeout=timeout, fetch_local=False)
        answers = [self._answer(owing[reference]) for reference in ready]
        self._stop_if_alone()
        return answers

    def bury(self, worker: RayWorker) -> None:
        try:
            ray.kill(worker.actor, no_restart=True)
        except ray.exceptions.RayError:
            LOG.debug("a worker of Ray was gone before it was ended")

    def describe(self, worker: RayWorker) -> str:
        return f"the actor {worker.actor._actor_id.hex()[:12]}"

    def _answer(self, worker: RayWorker) -> Answer[RayWorker]:
        try:
            value = ray.get(worker.owed, timeout=FETCH)
        except GONE as error:
            worker.joined = False
            lines = str(error).strip().splitlines()
            if getattr(error, "actor_init_failed", False):
                # every other worker would fail in the same way
                return Failed(worker, InputError(f"Ray: a worker cannot start: {lines[-1][:300]}"))
            return Died(worker, lines[0][:200])
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, Exception):
                return Failed(worker, cause)
            return Failed(worker, error)
        worker.owed = None
        if not worker.joined:
            worker.joined = True
            self._welcome(value)
            return Joined(worker)
        reply: WorkerReply = unpacked(value)
        if reply.error is not None:
            return Failed(worker, reply.error)
        return PieceFinished(worker, reply.updates, reply.seconds, reply.profile)

    def _welcome(self, about: dict[str, str]) -> None:
        if about["data"] != self._expected:
            raise InputError(
                "Ray(load=...): a worker has other data than the driver; "
                "load the same files on every node"
            )
        machine = about["machine"]
        if machine != _machine() and machine not in self._machines:
            self._machines.add(machine)
            LOG.warning(
                "a worker has %s, the driver %s: the last bits may differ", machine, _machine()
            )

    def _stop_if_alone(self) -> None:
        """The run ends where no worker is ready and none comes: never an endless wait."""
        if any(worker.joined for worker in self.hired):
            self._alone_since = monotonic()
        if monotonic() - self._alone_since < self.patience:
            return
        total = ray.cluster_resources().get("CPU", 0.0)
        free = ray.available_resources().get("CPU", 0.0)
        raise InputError(
            f"Ray: no worker was ready for {self.patience:g} s; {self.workers} workers of "
            f"{self.settings.cpus:g} CPUs were asked for, the cluster has {total:g} CPUs, "
            f"{free:g} of them free: ask for less, or start nodes"
        )


@dataclass(frozen=True)
class _Kit:
    """What every worker is given once."""

    task: Task
    inner: Local
    federation: Federation | None  # None: loaded where the worker is
    load: Callable[[], Federation] | None

    def __reduce__(self) -> Any:
        task = self.task
        pieces = (task.algorithm, task.model, self.federation, self.load, task.plan, task.seed)
        return _kit, (*pieces, task.profiler, self.inner)


def _kit(
    algorithm: Any,
    model: Any,
    federation: Federation | None,
    load: Callable[[], Federation] | None,
    plan: Any,
    seed: int,
    profiler: Any,
    inner: Local,
) -> _Kit:
    if federation is None:
        assert load is not None
        federation = load()
    # the model was examined by the driver and is not examined again: all compute in the same way
    task = Task(algorithm, model, federation, plan, seed, profiler)
    return _Kit(task, inner, federation, load)


class _Actor:
    """The life of a worker on a cluster: pieces in, replies out."""

    def __init__(self, packed_kit: Packed, workers: int) -> None:
        torch.set_num_threads(1)
        kit: _Kit = unpacked(packed_kit)
        self.task = kit.task
        self.inner = kit.inner.one_of(workers)
        self.task.profiler.drain()

    def ready(self) -> dict[str, str]:
        """What the driver wants to know of a worker before it gives it work."""
        return {"machine": _machine(), "data": _data_digest(self.task.federation)}

    def work(self, packed_broadcast: Packed, packed_piece: Packed) -> Packed:
        """One piece; what a client raises is part of the reply."""
        sent: Broadcast = unpacked(packed_broadcast)
        reply = run_piece(self.task, self.inner, sent, unpacked(packed_piece))
        message = packed_reply(reply)
        return message.text, [np.frombuffer(memoryview(b), np.uint8) for b in message.buffers]


def _places(cpus: float) -> int:
    total = ray.cluster_resources().get("CPU", 0.0)
    return max(1, int(total // cpus))


def _machine() -> str:
    return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"


def _data_digest(federation: Federation) -> str:
    shapes = [f"{field.dtype} {tuple(field.shape)}" for field in federation.fields]
    return "; ".join([partition_hash(federation.parts), *shapes])
