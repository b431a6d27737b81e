"""Many clients at once, stacked on a leading axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.algorithm import Broadcast, Update
from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.core.vec import State
from fedstep.execute.task import Local, Task


@dataclass(frozen=True)
class Cohort(Local):
    """Run blocks of clients in lockstep: for small models, where one client alone leaves the machine idle.

    Batches of unequal size are padded with copies of a real sample and masked; a client that has fewer steps than its block
    drops out of the block when it is done.
    """

    block: int = 32

    def __post_init__(self) -> None:
        if self.block < 1:
            raise InputError(f"Cohort(block={self.block}): a block needs at least one client")

    def jobs(self, task: Task, cohort: Sequence[int]) -> list[list[int]]:
        return [list(cohort[first : first + self.block]) for first in range(0, len(cohort), self.block)]

    def run(self, task: Task, sent: Broadcast, clients: Sequence[int], memory: State, probe: bool) -> Update:
        samples = torch.tensor([task.federation.size(c) for c in clients])
        call = task.algorithm.probe if probe else task.algorithm.client
        return call(sent, memory, task.model, _walk(task, sent, clients, samples, probe), samples)


def _walk(
    task: Task, sent: Broadcast, clients: Sequence[int], samples: Tensor, probe: bool
) -> Iterator[tuple[Batch, Tensor | None]]:
    plans = [task.batches(c, sent.round, probe) for c in clients]
    for step in range(max(map(len, plans))):
        rows = [r for r, plan in enumerate(plans) if step < len(plan)]
        index, mask = _padded([plans[r][step] for r in rows])
        sizes = torch.tensor([len(plans[r][step]) for r in rows])
        seeds = torch.tensor([task.step_seed(clients[r], sent.round, step) for r in rows])
        steps = torch.tensor([len(plans[r]) for r in rows])
        batch = task.gather(index, sizes / samples[rows].double(), seeds, mask, sent.x, steps)
        yield batch, None if len(rows) == len(clients) else torch.tensor(rows)


def _padded(indices: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Index sets as one rectangle, and which entries are real (None: all)."""
    longest = max(map(len, indices))
    if all(len(i) == longest for i in indices):
        return torch.stack(indices), None
    rectangle = torch.stack([torch.cat([i, i[:1].expand(longest - len(i))]) for i in indices])
    lengths = torch.tensor([len(i) for i in indices])
    return rectangle, torch.arange(longest) < lengths[:, None]
