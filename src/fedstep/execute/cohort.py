"""Many clients at once, stacked on a leading axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedstep.algorithm import Broadcast, Update
from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.core.vec import State
from fedstep.execute.spans import Spans, pays, spans
from fedstep.execute.task import Local, Task


@dataclass(frozen=True)
class Cohort(Local):
    """Run blocks of clients in lockstep: for small models, where one client alone leaves the machine idle.

    Batches of unequal size are padded with copies of a real sample and masked; a client that has fewer steps than its block
    drops out of the block when it is done. Clients of a linear model with fewer samples than features work in the span of their
    samples (models/dual.py) where that is less work, in blocks of clients of like size; `dual=False` keeps to the plain form.
    """

    block: int = 16
    dual: bool = True
    _spans: Spans = field(default_factory=Spans, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.block < 1:
            raise InputError(f"Cohort(block={self.block}): a block needs at least one client")

    def jobs(self, task: Task, cohort: Sequence[int]) -> list[list[int]]:
        if not (self.dual and spans(task)):
            return self._cut(cohort)
        clients = sorted(cohort, key=task.federation.size)
        short = sum(pays(task, task.federation.size(c)) for c in clients)  # they come first: the rule is monotone
        place = {c: k for k, c in enumerate(cohort)}
        return [
            sorted(block, key=place.__getitem__)
            for part in (clients[:short], clients[short:])
            for block in self._cut(part)
        ]

    def _cut(self, clients: Sequence[int]) -> list[list[int]]:
        """Blocks of nearly equal size, none above the limit: workers are to have the same to do."""
        count = -(-len(clients) // self.block)
        ends = [len(clients) * i // count for i in range(1, count + 1)] if count else []
        return [list(clients[a:b]) for a, b in zip([0, *ends], ends, strict=False)]

    def run(self, task: Task, sent: Broadcast, clients: Sequence[int], memory: State, probe: bool) -> Update:
        samples = torch.tensor([task.federation.size(c) for c in clients])
        dual = self.dual and not probe and spans(task) and pays(task, int(samples.max()))
        call = task.algorithm.probe if probe else task.algorithm.client
        with task.working():
            model = task.watched(self._spans.block(task, sent.x, clients) if dual else task.model)
            return call(sent, memory, model, _walk(task, sent, clients, samples, probe, dual), samples)


def _walk(
    task: Task, sent: Broadcast, clients: Sequence[int], samples: Tensor, probe: bool, positions: bool
) -> Iterator[tuple[Batch, Tensor | None]]:
    """Batches in lockstep, of samples or of positions among the client's samples, and which clients are still at work."""
    plans = [task.positions(c, sent.round, probe) for c in clients]
    for step in range(max(map(len, plans))):
        rows = [r for r, plan in enumerate(plans) if step < len(plan)]
        index, mask = _padded([plans[r][step] for r in rows])
        sizes = torch.tensor([len(plans[r][step]) for r in rows])
        seeds = torch.tensor([task.step_seed(clients[r], sent.round, step) for r in rows])
        share, steps = sizes / samples[rows].double(), torch.tensor([len(plans[r]) for r in rows])
        who = None if len(rows) == len(clients) else torch.tensor(rows)
        pooled = torch.stack([task.federation.parts[clients[r]][i] for r, i in zip(rows, index, strict=True)])
        if positions:
            yield task.place(index, pooled, torch.tensor(rows), share, seeds, mask, sent.x, steps), who
        else:
            yield task.gather(pooled, share, seeds, mask, sent.x, steps), who


def _padded(indices: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Index sets as one rectangle, and which entries are real (None: all)."""
    longest = max(map(len, indices))
    if all(len(i) == longest for i in indices):
        return torch.stack(indices), None
    rectangle = torch.stack([torch.cat([i, i[:1].expand(longest - len(i))]) for i in indices])
    lengths = torch.tensor([len(i) for i in indices])
    return rectangle, torch.arange(longest) < lengths[:, None]
