"""Many clients at once, stacked on a leading axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.algorithm import Broadcast, Update
from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.execute.task import Store, Task, blame


@dataclass(frozen=True)
class Cohort:
    """Run blocks of clients in lockstep: for small models, where one client alone leaves the machine idle.

    Batches of unequal size are padded with copies of a real sample and masked; a client that has fewer steps than its block
    drops out of the block when it is done.
    """

    block: int = 32

    def __post_init__(self) -> None:
        if self.block < 1:
            raise InputError(f"Cohort(block={self.block}): a block needs at least one client")

    def __call__(self, task: Task, sent: Broadcast, cohort: Sequence[int], store: Store) -> Iterator[Update]:
        for first in range(0, len(cohort), self.block):
            clients = cohort[first : first + self.block]
            with blame(clients, sent.round):
                memory = store.load(task, sent, clients)
                samples = torch.tensor([task.federation.size(c) for c in clients])
                walk = _walk(task, sent, clients, samples)
                update = task.algorithm.client(sent, memory, task.model, walk, samples)
                store.save(clients, update.memory)
            yield update


def _walk(
    task: Task, sent: Broadcast, clients: Sequence[int], samples: Tensor
) -> Iterator[tuple[Batch, Tensor | None]]:
    plans = [task.batches(c, sent.round) for c in clients]
    for step in range(max(map(len, plans))):
        rows = [r for r, plan in enumerate(plans) if step < len(plan)]
        index, mask = _padded([plans[r][step] for r in rows])
        sizes = torch.tensor([len(plans[r][step]) for r in rows])
        seeds = torch.tensor([task.step_seed(clients[r], sent.round, step) for r in rows])
        batch = task.gather(index, sizes / samples[rows].double(), seeds, mask, sent.x)
        yield batch, None if len(rows) == len(clients) else torch.tensor(rows)


def _padded(indices: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Index sets as one rectangle, and which entries are real (None: all)."""
    longest = max(map(len, indices))
    if all(len(i) == longest for i in indices):
        return torch.stack(indices), None
    rectangle = torch.stack([torch.cat([i, i[:1].expand(longest - len(i))]) for i in indices])
    lengths = torch.tensor([len(i) for i in indices])
    return rectangle, torch.arange(longest) < lengths[:, None]
