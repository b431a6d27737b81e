"""The node's half of a round: which clients it holds, and their work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

import fedstep
from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.core.types import TargetKind
from fedstep.data.federation import Federation
from fedstep.execute.base import named_clients
from fedstep.execute.crew import LOG
from fedstep.execute.processes import one_thread
from fedstep.execute.sequential import client_reply
from fedstep.execute.task import Task
from fedstep.models.flat import FlatModel
from fedstep.remote.answer import answer_parcel, error_parcel
from fedstep.remote.memories import Memories
from fedstep.remote.order import WorkOrder, client_half, refuse_other_half
from fedstep.remote.parcel import Parcel, RefusedReply, Value, dtype_name
from fedstep.remote.roster import model_digest
from fedstep.remote.sealed import SealedForm, sealed_sum
from fedstep.server.guards import Open
from fedstep.server.weighting import Equal
from fedstep.spec import build


class LostMemory(Exception):
    """A client's memory that the server counts on is not here any more."""


class Node:
    """Some clients of a federation, with their data."""

    def __init__(
        self,
        model: FlatModel,
        clients: Mapping[int, Any],
        algorithm: Algorithm | None = None,
    ) -> None:
        self.model = model
        self.federation = _federation(clients)
        self.algorithm = algorithm  # None: built from the server's text
        self._task: Task | None = None
        self._task_of: object = None
        self.bytes = _bytes_of([model.init(), *self.federation.fields])

    def who(self) -> Parcel:
        """Which clients are here, and what the server must know of them and of this machine."""
        # counts and kinds, never samples: this is all that leaves the node before training
        parts = self.federation.parts
        kind = TargetKind.of(self.federation.fields[-1])
        return Parcel(
            {
                "clients": [parts.number(row) for row in range(len(parts))],
                "samples": parts.sizes.tolist(),
                "model": model_digest(self.model),
                "target_dtype": dtype_name(kind.dtype),
                "target_rank": kind.rank,
                "fedstep": fedstep.__version__,
                "torch": str(torch.__version__),
                "cpu": torch.backends.cpu.get_cpu_capability(),
            }
        )

    def work(self, order: WorkOrder, memories: Memories) -> dict[str, Parcel]:
        """A parcel a client: its reply, or what went wrong with it."""
        answers = {}
        # as `fit` does: the bits of a sum may depend on the number of threads
        with one_thread():
            for place, client in enumerate(order.clients):
                answers[str(client)] = self._answer(order, place, memories)
        return answers

    def sealed(self, order: WorkOrder) -> torch.Tensor:
        """The sums over the clients of this node, for secure aggregation; no client is seen alone."""
        task = self._task_for(order)
        algorithm = replace(task.algorithm, weighting=Equal(), guard=Open())
        form = SealedForm.of(algorithm, task.model, order.sent)
        aggregates = []
        with one_thread():
            for client in order.clients:
                try:
                    done = client_reply(task, order.sent, client, memory={})
                except Exception as error:
                    # the others of this node go on; the server sees that one is missing
                    LOG.warning("%s: %s", named_clients([client]), refusal(error))
                    continue
                aggregates.append(algorithm.count(done.reply, order.sent))
        return sealed_sum(form, aggregates)

    def _answer(
        self,
        order: WorkOrder,
        place: int,
        memories: Memories,
    ) -> Parcel:
        client = order.clients[place]
        identity: dict[str, Value] = {
            "client": client,
            "run": order.settings.run,
            "version": order.version,
        }
        try:
            return self._client(order, place, memories, identity)
        except LostMemory as error:
            return error_parcel(identity, str(error), lost=True)
        except Exception as error:
            # whatever the user's code raises: the other clients of this node go on
            reason = f"{type(error).__name__}: {error}"
            return error_parcel(identity, reason)

    def _client(
        self,
        order: WorkOrder,
        place: int,
        memories: Memories,
        identity: Mapping[str, Value],
    ) -> Parcel:
        task = self._task_for(order)
        client = order.clients[place]
        memory = _memory(task, order, place, memories)
        done = client_reply(task, order.sent, client, memory, order.probe)
        # a method without memory leaves nothing on the node
        if memory:
            run = order.settings.run
            memories.put(run, client, order.version, {**memory, **done.memory})
            oldest = order.kept[place]
            since = order.since[place]
            # what the server may come back to, and what was made now; all else is of no use
            counted = [v for v in memories.versions(run, client) if oldest <= v <= since]
            memories.settle(run, client, [*counted, order.version])
        return answer_parcel(
            task.algorithm,
            done,
            identity,
            probe=order.probe,
            trace=order.settings.trace,
        )

    def _task_for(self, order: WorkOrder) -> Task:
        settings = order.settings
        # examining a model costs some passes: once a run, not once a round
        if self._task is None or self._task_of != settings:
            algorithm = self.algorithm
            if algorithm is None:
                algorithm = build(settings.method)
            task = Task(
                algorithm,
                self.model,
                self.federation,
                settings.plan,
                settings.seed,
            )
            # two versions of a method would train, and nobody would notice
            refuse_other_half(settings.algorithm, client_half(task.algorithm))
            self._task = task
            self._task_of = settings
        return self._task


def _memory(
    task: Task,
    order: WorkOrder,
    place: int,
    memories: Memories,
) -> dict[str, torch.Tensor]:
    """What the client begins from; never zeros in the place of something that was lost."""
    fresh = task.algorithm.memory_init(order.sent.x)
    since = order.since[place]
    # version 0: the server has counted nothing of this client yet
    if not fresh or since == 0:
        return fresh
    client = order.clients[place]
    memory = memories.get(order.settings.run, client, since)
    if memory is None:
        raise LostMemory(f"the memory of {named_clients([client])} of version {since} is lost")
    return memory


def _federation(clients: Mapping[int, Any]) -> Federation:
    """The clients of this node under their numbers in the whole federation."""
    numbers = sorted(clients)
    _check_numbers(numbers)
    federation = Federation.of([clients[number] for number in numbers])
    # random numbers are keyed by them: a client is the same on whatever node it is
    parts = replace(federation.parts, numbers=torch.tensor(numbers, dtype=torch.int64))
    return replace(federation, parts=parts)


def _bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """What these tensors take in memory together."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _check_numbers(numbers: Sequence[Any]) -> None:
    if not numbers:
        raise InputError("make(context) returned no clients: give {number: (inputs, targets)}")
    for number in numbers:
        if type(number) is not int or number < 0:
            raise InputError(f"client {number!r}: clients are numbered from 0")


def refusal(error: Exception) -> str:
    """What a node tells the server about an order that it cannot read."""
    if isinstance(error, RefusedReply | InputError):
        return str(error)
    return f"{type(error).__name__}: {error}"
