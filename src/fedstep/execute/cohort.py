"""Many clients at once, stacked on a leading axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fedstep.algorithm import Broadcast, Update
from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Forward
from fedstep.core.vec import State
from fedstep.execute.base import Local, run_clients
from fedstep.execute.gram_cache import LIMIT, GramCache, dual_form_fits, dual_form_pays
from fedstep.execute.lockstep import Lockstep
from fedstep.execute.task import Task


@dataclass(frozen=True)
class Cohort(Local):
    """Run blocks of clients in lockstep: one small model alone leaves the machine idle.

    Batches of unequal size are padded with copies of a real sample and masked; a client that has
    fewer steps than its block drops out of the block when it is done. Clients of a linear model
    with fewer samples than features work in the span of their samples (models/dual.py) where that
    is less work, in blocks of clients of like size; `dual=False` keeps to the plain form.
    """

    block: int = 16  # clients at most
    dual: bool = True
    # no part of what the executor is: neither its repr nor equality may depend on who was met
    _cache: GramCache = field(default_factory=GramCache, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.block < 1:
            raise InputError(f"Cohort(block={self.block}): a block needs at least one client")

    def one_of(self, workers: int) -> Cohort:
        # the limit is the machine's: every worker has a cache of its own
        return replace(self, _cache=GramCache(LIMIT // workers))

    def jobs(self, task: Task, cohort: Sequence[int]) -> list[list[int]]:
        if not (self.dual and dual_form_fits(task)):
            return self._cut(cohort)
        size_of = task.federation.size
        clients = sorted(cohort, key=size_of)
        # the rule is monotone in the size, so those whom the dual form pays come first
        in_dual_form = sum(dual_form_pays(task, size_of(client)) for client in clients)
        # cut apart: a block has one form, and one large client would take it from the others
        dual_blocks = self._cut(clients[:in_dual_form])
        plain_blocks = self._cut(clients[in_dual_form:])
        blocks = dual_blocks + plain_blocks
        # inside a block the order of the cohort, so that a block of all is the cohort itself
        place = {client: k for k, client in enumerate(cohort)}
        return [sorted(block, key=place.__getitem__) for block in blocks]

    def _cut(self, clients: Sequence[int]) -> list[list[int]]:
        """Blocks of nearly equal size, none above the limit: workers are to have the same to do."""
        count = -(-len(clients) // self.block)  # rounded up
        blocks = []
        for i in range(count):
            begin = len(clients) * i // count
            end = len(clients) * (i + 1) // count
            blocks.append(list(clients[begin:end]))
        return blocks

    def run(
        self,
        task: Task,
        sent: Broadcast,
        clients: Sequence[int],
        memory: State,
        probe: bool,
    ) -> Update:
        sizes = [task.federation.size(client) for client in clients]
        samples = torch.tensor(sizes)
        # a probe wants gradients of the parameters, which have no coordinates in the span
        dual = self.dual and not probe and dual_form_fits(task)
        dual = dual and dual_form_pays(task, max(sizes))
        with task.profiler.job():
            model: Forward = task.model
            if dual:
                model = self._cache.dual_form(task, sent.x, clients)
            # a generator: a batch is made when its step comes, so one at a time lies in memory
            batches = _batches(
                task,
                sent,
                clients,
                samples,
                probe=probe,
                dual=dual,
            )
            return run_clients(
                task,
                sent,
                memory=memory,
                model=model,
                batches=batches,
                samples=task.samples(clients),
                probe=probe,
            )


def _batches(
    task: Task,
    sent: Broadcast,
    clients: Sequence[int],
    samples: Tensor,
    probe: bool,
    dual: bool,
) -> Iterator[tuple[Batch, Tensor | None]]:
    """Batches in lockstep, and which clients are still at work; None: all of them.

    In the dual form a batch has positions among the client's samples instead of the samples.
    """
    plans = [task.positions(client, sent.round, probe) for client in clients]
    walk = Lockstep.of(plans)
    parts = pad_sequence(
        [task.federation.parts[client] for client in clients],
        batch_first=True,
    )
    # in double precision, whatever the model's: a share is a weight of the exact number of samples
    shares = walk.sizes / samples.double().unsqueeze(-1)
    steps = torch.tensor(walk.lengths)
    for step, width in enumerate(walk.largest):
        at_work = walk.at_work(step)
        rows = at_work
        if rows is None:
            rows = torch.arange(len(clients))
        positions = walk.positions[rows, step, :width]
        pooled = parts[rows].gather(1, positions)
        if dual:
            batch = task.gather_positions(
                positions,
                pooled,
                rows,
                share=shares[rows, step],
                mask=walk.mask(step, rows),
                like=sent.x,
                steps=steps[rows],
            )
        else:
            # by the client, not by its row: its neighbours must not change what it draws
            at_rows = [clients[row] for row in rows.tolist()]
            seeds = [task.step_seed(client, sent.round, step) for client in at_rows]
            batch = task.gather(
                pooled,
                share=shares[rows, step],
                seed=torch.tensor(seeds),
                mask=walk.mask(step, rows),
                like=sent.x,
                steps=steps[rows],
            )
        yield batch, at_work
