"""One client at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.algorithm import Broadcast, LocalRound, Update
from fedstep.core.types import Batch
from fedstep.core.vec import State
from fedstep.execute.base import Local, run_clients
from fedstep.execute.task import Task


@dataclass(frozen=True)
class Sequential(Local):
    """Run the clients one after another, each on unpadded batches: any model, least memory."""

    def jobs(self, task: Task, cohort: Sequence[int]) -> list[list[int]]:
        return [[client] for client in cohort]

    def run(
        self,
        task: Task,
        sent: Broadcast,
        clients: Sequence[int],
        memory: State,
        probe: bool,
    ) -> Update:
        (client,) = clients
        with task.profiler.job():
            done = run_clients(
                task,
                sent,
                memory={name: value[0] for name, value in memory.items()},
                model=task.model,
                batches=_batches(task, sent, client, probe),
                samples=task.samples(clients)[0],
                probe=probe,
            )
            summand = task.algorithm.count(done.reply, sent, probe)
        # one client has no axis of clients, a job has
        stacked = {name: value[None] for name, value in done.memory.items()}
        return Update(summand, stacked, done.trace)


def client_reply(
    task: Task,
    sent: Broadcast,
    client: int,
    memory: State,
    probe: bool = False,
) -> LocalRound:
    """One client's round before it is weighted: what a client elsewhere sends, to the same bits."""
    call = task.algorithm.reply
    if probe:
        call = task.algorithm.probe_reply
    return call(
        sent,
        memory,
        task.model,
        _batches(task, sent, client, probe),
        torch.tensor(task.federation.size(client)),
    )


def _batches(
    task: Task,
    sent: Broadcast,
    client: int,
    probe: bool,
) -> Iterator[tuple[Batch, Tensor | None]]:
    """A client's batches, unpadded; the second is always None: a client alone never drops out."""
    size = task.federation.size(client)
    plan = task.batches(client, sent.round, probe)
    steps = torch.tensor(len(plan))
    for step, index in enumerate(plan):
        batch = task.gather(
            index,
            share=torch.tensor(len(index) / size, dtype=torch.float64),
            seed=torch.tensor(task.step_seed(client, sent.round, step)),
            mask=None,
            like=sent.x,
            steps=steps,
        )
        yield batch, None
