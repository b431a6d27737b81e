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
    drops out of the block when it is done. Blocks are cut by size, so that a block holds clients alike.
    Clients of a linear model with fewer samples than features work in the span of their samples (models/dual.py) where that
    is less work; `dual=False` keeps to the plain form.
    """

    block: int = 32
    dual: bool = True
    _spans: Spans = field(default_factory=Spans, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.block < 1:
            raise InputError(f"Cohort(block={self.block}): a block needs at least one client")

    def jobs(self, task: Task, cohort: Sequence[int]) -> list[list[int]]:
        clients = sorted(cohort, key=task.federation.size)
        short = 0
        if self.dual and spans(task):  # the short clients come first: whether it pays is monotone in the size
            short = sum(pays(task, task.federation.size(c)) for c in clients)
        parts = (clients[:short], clients[short:])
        blocks = [set(p[i : i + self.block]) for p in parts for i in range(0, len(p), self.block)]
        return [[c for c in cohort if c in block] for block in blocks]

    def run(self, task: Task, sent: Broadcast, clients: Sequence[int], memory: State, probe: bool) -> Update:
        samples = torch.tensor([task.federation.size(c) for c in clients])
        if self.dual and not probe and spans(task) and pays(task, int(samples.max())):
            model = self._spans.block(task, sent.x, clients)
            return task.algorithm.client(sent, memory, model, _walk(task, sent, clients, samples, probe, True), samples)
        call = task.algorithm.probe if probe else task.algorithm.client
        return call(sent, memory, task.model, _walk(task, sent, clients, samples, probe, False), samples)


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
        share = sizes / samples[rows].double()
        who = None if len(rows) == len(clients) else torch.tensor(rows)
        pooled = torch.stack([task.federation.parts[clients[r]][i] for r, i in zip(rows, index, strict=True)])
        if positions:
            yield _in_place(task, index, pooled, rows, share, seeds, mask, sent.x), who
        else:
            yield task.gather(pooled, share, seeds, mask, sent.x), who


def _in_place(
    task: Task,
    index: Tensor,
    pooled: Tensor,
    rows: list[int],
    share: Tensor,
    seeds: Tensor,
    mask: Tensor | None,
    like: Tensor,
) -> Batch:
    """A batch for the dual form: positions, rows and targets."""
    owner = torch.tensor(rows).unsqueeze(-1).expand_as(index)
    fields = (index, owner, task.federation.fields[-1][pooled])
    moved = tuple(f.to(like.device) for f in fields)
    return Batch(moved, share.to(like), seeds, None if mask is None else mask.to(like.device))


def _padded(indices: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Index sets as one rectangle, and which entries are real (None: all)."""
    longest = max(map(len, indices))
    if all(len(i) == longest for i in indices):
        return torch.stack(indices), None
    rectangle = torch.stack([torch.cat([i, i[:1].expand(longest - len(i))]) for i in indices])
    lengths = torch.tensor([len(i) for i in indices])
    return rectangle, torch.arange(longest) < lengths[:, None]
