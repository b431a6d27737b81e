"""One client at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedstep.algorithm import Broadcast, Update
from fedstep.core.types import Batch
from fedstep.core.vec import State
from fedstep.execute.base import Local
from fedstep.execute.task import Task


@dataclass(frozen=True)
class Sequential(Local):
    """Run the clients one after another, each on unpadded batches: any model, least memory."""

    def jobs(self, task: Task, cohort: Sequence[int]) -> list[list[int]]:
        return [[client] for client in cohort]

    def run(
        self, task: Task, sent: Broadcast, clients: Sequence[int], memory: State, probe: bool
    ) -> Update:
        (client,) = clients
        own = {name: value[0] for name, value in memory.items()}
        samples = torch.tensor(task.federation.size(client))
        call = task.algorithm.probe if probe else task.algorithm.client
        with task.working():
            update = call(
                sent, own, task.watched(task.model), _walk(task, sent, client, probe), samples
            )
        return replace(update, memory={name: value[None] for name, value in update.memory.items()})


def _walk(
    task: Task, sent: Broadcast, client: int, probe: bool
) -> Iterator[tuple[Batch, Tensor | None]]:
    size = task.federation.size(client)
    plan = task.batches(client, sent.round, probe)
    for step, index in enumerate(plan):
        seed, steps = (
            torch.tensor(task.step_seed(client, sent.round, step)),
            torch.tensor(len(plan)),
        )
        share = torch.tensor(len(index) / size, dtype=torch.float64)
        yield task.gather(index, share, seed, None, sent.x, steps), None
