"""Many clients at once, stacked on a leading axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import torch
from torch import Tensor

from fedstep.algorithm import Broadcast, Update
from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Forward
from fedstep.core.vec import State
from fedstep.execute.base import Job, Local, clients_of, run_clients
from fedstep.execute.gram_cache import LIMIT, GramCache, dual_form_fits, dual_form_pays
from fedstep.execute.lockstep import Lockstep
from fedstep.execute.task import Task

# Numbers in the models of a stack of jobs: above that arithmetic costs more than the interpreter.
STACK = 2**15
# A linear model makes no copies of them on its way: a stack is limited by the caches only.
LINEAR_STACK = 2**20


@dataclass(frozen=True)
class Cohort(Local):
    """Run blocks of clients in lockstep: one small model alone leaves the machine idle.

    Batches of unequal size are padded with copies of a real sample and masked; a client that has
    fewer steps than its block drops out of the block when it is done. Clients of a linear model
    with fewer samples than features work in the span of their samples (models/dual.py) where that
    is less work, in blocks of clients of like size; `dual=False` keeps to the plain form.

    The updates of a block are summed to one, so the size of the blocks decides the bits. Blocks of
    small models that are padded alike are run at once: a row does not depend on its neighbours.
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
        sizes = task.federation.sizes_of(cohort).tolist()
        size_of = dict(zip(cohort, sizes, strict=True))
        clients = sorted(cohort, key=size_of.__getitem__)
        pays = {size: dual_form_pays(task, size) for size in set(sizes)}
        # the rule is monotone in the size, so those whom the dual form pays come first
        in_dual_form = sum(pays[size] for size in sizes)
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

    def stacks(self, task: Task, jobs: Sequence[Job]) -> list[list[Job]]:
        most = STACK
        if task.model.linear:
            most = LINEAR_STACK
        stacks: list[list[Job]] = []
        room = 0
        for job in jobs:
            room -= len(job) * task.model.dim
            if not stacks or room < 0:
                stacks.append([])
                room = most - len(job) * task.model.dim
            stacks[-1].append(job)
        return stacks

    def run(
        self,
        task: Task,
        sent: Broadcast,
        clients: Sequence[int],
        memory: State,
        probe: bool,
    ) -> Update:
        (update,) = self.run_stack(task, sent, [clients], [memory], probe)
        return update

    def run_stack(
        self,
        task: Task,
        sent: Broadcast,
        jobs: Sequence[Job],
        memories: Sequence[State],
        probe: bool,
    ) -> list[Update]:
        clients = clients_of(jobs)
        sizes = task.federation.sizes_of(clients)
        walk = Lockstep.of(task.walks(clients, sent.round, probe))
        blocks = _behind_each_other(jobs)
        forms = self._forms(task, walk, blocks, sizes, probe)
        updates: list[Update] = []
        for form, numbers in groupby(range(len(jobs)), key=forms.__getitem__):
            alike = list(numbers)
            rows = slice(blocks[alike[0]].start, blocks[alike[-1]].stop)
            block = Block(
                clients=clients[rows],
                sizes=sizes[rows],
                walk=walk.part(rows),
                dual=form.dual,
            )
            memory = _joined([memories[number] for number in alike])
            cuts = _behind_each_other([jobs[number] for number in alike])
            updates += self._run_alike(task, sent, block, memory, cuts, probe)
        return updates

    def _forms(
        self,
        task: Task,
        walk: Lockstep,
        blocks: Sequence[slice],
        sizes: Tensor,
        probe: bool,
    ) -> list[JobForm]:
        """How each job is padded."""
        # a probe wants gradients of the parameters, which have no coordinates in the span
        may_be_dual = self.dual and not probe and dual_form_fits(task)
        numbers_of_samples = sizes.tolist()
        uniform = walk.uniform
        forms = []
        for rows in blocks:
            longest = max(numbers_of_samples[rows])
            if not may_be_dual or not dual_form_pays(task, longest):
                longest = 0
            alone = walk
            if not uniform:
                alone = walk.part(rows)
            forms.append(JobForm(alone.largest, alone.smallest, longest))
        return forms

    def _run_alike(
        self,
        task: Task,
        sent: Broadcast,
        block: Block,
        memory: State,
        cuts: Sequence[slice],
        probe: bool,
    ) -> list[Update]:
        with task.profiler.job():
            model: Forward = task.model
            if block.dual:
                model = self._cache.dual_form(task, sent.x, block.clients)
            done = run_clients(
                task,
                sent,
                memory=memory,
                model=model,
                # a generator: a batch is made when its step comes, so one at a time lies in memory
                batches=_batches(task, sent, block),
                samples=task.samples(block.clients),
                probe=probe,
            )
            summands = task.algorithm.count_blocks(done.reply, sent, cuts, probe)
        updates = []
        for rows, summand, trace in zip(cuts, summands, done.trace.cut(cuts), strict=True):
            own = {name: value[rows] for name, value in done.memory.items()}
            updates.append(Update(summand, own, trace))
        return updates


@dataclass(frozen=True)
class JobForm:
    """How a job is padded: jobs of the same form can be stacked, and keep their bits."""

    largest: tuple[int, ...]  # batch of each step
    smallest: tuple[int, ...]
    longest: int  # client, in the dual form; 0: the plain form

    @property
    def dual(self) -> bool:
        return self.longest > 0


@dataclass(frozen=True)
class Block:
    """Clients that are run in lockstep."""

    clients: Sequence[int]
    sizes: Tensor  # (C,) samples of each
    walk: Lockstep
    dual: bool  # in the span of their samples


def _behind_each_other(jobs: Sequence[Job]) -> list[slice]:
    """Where the clients of each job lie, once all are laid end to end."""
    blocks = []
    end = 0
    for job in jobs:
        blocks.append(slice(end, end + len(job)))
        end += len(job)
    return blocks


def _joined(memories: Sequence[State]) -> State:
    if len(memories) == 1:
        return memories[0]
    return {name: torch.cat([memory[name] for memory in memories]) for name in memories[0]}


def _batches(
    task: Task,
    sent: Broadcast,
    block: Block,
) -> Iterator[tuple[Batch, Tensor | None]]:
    """Batches in lockstep, and which clients are still at work; None: all of them.

    In the dual form a batch has positions among the client's samples instead of the samples.
    """
    walk = block.walk
    parts = task.federation.parts
    first = parts.offsets[task.federation.rows(block.clients)].unsqueeze(-1)
    # in double precision, whatever the model's: a share is a weight of the exact number of samples
    shares = walk.sizes / block.sizes.double().unsqueeze(-1)
    steps = torch.tensor(walk.lengths)
    everybody = torch.arange(len(block.clients))
    for step, width in enumerate(walk.largest):
        at_work = walk.at_work(step)
        # a slice of all is a view: no copy where nobody has dropped out
        some: Tensor | slice = slice(None)
        if at_work is not None:
            some = at_work
        rows = everybody[some]
        positions = walk.positions[some, step, :width]
        pooled = parts.samples[first[some] + positions]
        if block.dual:
            batch = task.gather_positions(
                positions,
                pooled,
                rows,
                share=shares[some, step],
                mask=walk.mask(step, rows),
                like=sent.x,
                steps=steps[some],
            )
        else:
            # by the client, not by its row: its neighbours must not change what it draws
            at_rows = [block.clients[row] for row in rows.tolist()]
            batch = task.gather(
                pooled,
                share=shares[some, step],
                seed=torch.tensor(task.step_seeds(at_rows, sent.round, step)),
                mask=walk.mask(step, rows),
                like=sent.x,
                steps=steps[some],
            )
        if at_work is not None:
            at_work = at_work.to(sent.x.device)
        yield batch, at_work
