"""One client at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.algorithm import Broadcast, Update
from fedstep.core.types import Batch
from fedstep.execute.task import Store, Task, blame


@dataclass(frozen=True)
class Sequential:
    """Run the clients one after another, each on unpadded batches: any model, least memory."""

    def __call__(self, task: Task, sent: Broadcast, cohort: Sequence[int], store: Store) -> Iterator[Update]:
        for client in cohort:
            with blame([client], sent.round):
                memory = {name: value[0] for name, value in store.load(task, sent, [client]).items()}
                samples = torch.tensor(task.federation.size(client))
                update = task.algorithm.client(sent, memory, task.model, _walk(task, sent, client), samples)
                store.save([client], {name: value[None] for name, value in update.memory.items()})
            yield update


def _walk(task: Task, sent: Broadcast, client: int) -> Iterator[tuple[Batch, Tensor | None]]:
    size = task.federation.size(client)
    for step, index in enumerate(task.batches(client, sent.round)):
        seed = torch.tensor(task.step_seed(client, sent.round, step))
        yield task.gather(index, torch.tensor(len(index) / size, dtype=torch.float64), seed, None, sent.x), None
