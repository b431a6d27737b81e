"""Many clients at once, stacked on a leading axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fedstep.algorithm import Broadcast, Update
from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.core.vec import State
from fedstep.execute.base import Local
from fedstep.execute.spans import Spans, pays, spans
from fedstep.execute.task import Task


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
        short = sum(
            pays(task, task.federation.size(c)) for c in clients
        )  # they come first: the rule is monotone
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

    def run(
        self, task: Task, sent: Broadcast, clients: Sequence[int], memory: State, probe: bool
    ) -> Update:
        samples = torch.tensor([task.federation.size(c) for c in clients])
        dual = self.dual and not probe and spans(task) and pays(task, int(samples.max()))
        call = task.algorithm.probe if probe else task.algorithm.client
        with task.working():
            model = task.watched(self._spans.block(task, sent.x, clients) if dual else task.model)
            return call(
                sent, memory, model, _walk(task, sent, clients, samples, probe, dual), samples
            )


def _walk(
    task: Task, sent: Broadcast, clients: Sequence[int], samples: Tensor, probe: bool, dual: bool
) -> Iterator[tuple[Batch, Tensor | None]]:
    """Batches in lockstep, of samples or of positions among the client's samples, and which clients are still at work."""
    plans = [task.positions(c, sent.round, probe) for c in clients]
    lengths = [len(plan) for plan in plans]
    sizes = pad_sequence(
        [torch.tensor([i.numel() for i in plan], dtype=torch.int64) for plan in plans], True
    )
    longest, shortest = _extremes(sizes)
    positions = pad_sequence([_table(plan, max(longest, default=0)) for plan in plans], True)
    parts = pad_sequence([task.federation.parts[c] for c in clients], True)
    shares, steps = sizes / samples.double().unsqueeze(-1), torch.tensor(lengths)
    for step, width in enumerate(longest):
        who = (
            None
            if step < min(lengths)
            else torch.tensor([r for r, n in enumerate(lengths) if step < n])
        )
        rows = torch.arange(len(clients)) if who is None else who
        at = positions[rows, step, :width]
        mask = None if shortest[step] == width else torch.arange(width) < sizes[rows, step, None]
        pooled, share, count = parts[rows].gather(1, at), shares[rows, step], steps[rows]
        if dual:
            yield task.place(at, pooled, rows, share, mask, sent.x, count), who
        else:
            seeds = torch.tensor(
                [task.step_seed(clients[r], sent.round, step) for r in rows.tolist()]
            )
            yield task.gather(pooled, share, seeds, mask, sent.x, count), who


def _table(plan: list[Tensor], width: int) -> Tensor:
    """A client's batches, one a row; short ones are padded with their first sample."""
    sizes = torch.tensor([i.numel() for i in plan], dtype=torch.int64)
    column = torch.arange(width)
    first = (sizes.cumsum(0) - sizes).unsqueeze(-1)
    inside = torch.where(column < sizes.unsqueeze(-1), first + column, first)
    return torch.cat(plan)[inside] if plan else torch.zeros(0, width, dtype=torch.int64)


def _extremes(sizes: Tensor) -> tuple[list[int], list[int]]:
    """The largest and the smallest batch of each step, among the clients that are still at work."""
    if sizes.shape[1] == 0:
        return [], []
    return sizes.amax(0).tolist(), torch.where(sizes > 0, sizes, sizes.max()).amin(0).tolist()
