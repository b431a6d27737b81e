"""What an executor is given: the task, the model sent, the clients, and their memories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from fedstep.algorithm import Algorithm, Broadcast, Update
from fedstep.core.seeds import generator, key
from fedstep.core.types import Batch
from fedstep.core.vec import State
from fedstep.data.federation import Federation, Transform
from fedstep.data.plan import InOrder, Plan
from fedstep.models.flat import FlatModel


@dataclass(frozen=True)
class Task:
    """Everything about a run that does not change from round to round."""

    algorithm: Algorithm
    model: FlatModel
    federation: Federation
    plan: Plan = Plan()
    seed: int = 0

    def __post_init__(self) -> None:
        suited = self.algorithm.suited(self.model, self.federation.fields[-1])
        object.__setattr__(self, "algorithm", suited)
        if suited.correction.embeds:
            object.__setattr__(self, "model", self.model.embedding())

    def batches(self, client: int, round: int, probe: bool = False) -> list[Tensor]:
        """A client's batches of a round as indices into the pooled arrays; a probe walks once through all samples."""
        part = self.federation.parts[client]
        plan = Plan(self.plan.batch, None, 1, InOrder()) if probe else self.plan
        return [part[index] for index in plan(part.numel(), self.seed, round, client)]

    def step_seed(self, client: int, round: int, step: int) -> int:
        """The seed of what is random inside the forward passes of one local step."""
        return key(self.seed, round, client, step, "forward")

    def gather(
        self, index: Tensor, share: Tensor, seed: Tensor, mask: Tensor | None, like: Tensor, steps: Tensor | None = None
    ) -> Batch:
        """The samples of a batch, on the device of the model."""
        fields = tuple(f[index] for f in self.federation.fields)
        if self.federation.transform is not None:
            fields = self._transformed(self.federation.transform, fields, seed)
        fields = tuple(f.to(like.device) for f in fields)
        mask = None if mask is None else mask.to(like.device)
        return Batch(fields, share.to(like), seed, mask, None if steps is None else steps.to(like))

    def _transformed(self, transform: Transform, fields: tuple[Tensor, ...], seed: Tensor) -> tuple[Tensor, ...]:
        """Client by client, so that the random numbers do not depend on who else is in the block."""
        if seed.dim() == 0:
            return transform(fields, generator(int(seed), "augment"))
        each = [transform(row, generator(int(s), "augment")) for s, *row in zip(seed, *fields, strict=True)]  # type: ignore[arg-type]
        return tuple(torch.stack(column) for column in zip(*each, strict=True))


@dataclass
class Store:
    """Clients' memories between rounds."""

    memories: dict[int, dict[str, Tensor]] = field(default_factory=dict)

    def load(self, task: Task, sent: Broadcast, clients: Sequence[int]) -> dict[str, Tensor]:
        """Memories of some clients, stacked; a client without one gets the algorithm's first memory."""
        fresh = task.algorithm.memory_init(sent.x)
        each = [self.memories.get(c, fresh) for c in clients]
        return {name: torch.stack([m[name] for m in each]) for name in fresh}

    def save(self, clients: Sequence[int], memory: State) -> None:
        if memory:
            for row, client in enumerate(clients):
                self.memories[client] = {name: value[row].clone() for name, value in memory.items()}


class Executor(Protocol):
    """Who runs the clients of a round, and where."""

    def __call__(
        self, task: Task, sent: Broadcast, cohort: Sequence[int], store: Store, probe: bool = False
    ) -> Iterator[Update]:
        """Updates that sum to the cohort's, always cut and ordered in the same way; `probe`: their gradients instead."""
        ...


class Local:
    """Runs a cohort in this process, job by job; a leaf says how the cohort is cut and how a job is run."""

    def jobs(self, task: Task, cohort: Sequence[int]) -> list[list[int]]:
        """The cohort cut into jobs, always in the same way, whoever will run them."""
        raise NotImplementedError

    def run(self, task: Task, sent: Broadcast, clients: Sequence[int], memory: State, probe: bool) -> Update:
        """One job; memories have the clients on their first axis, also in the update."""
        raise NotImplementedError

    def __call__(
        self, task: Task, sent: Broadcast, cohort: Sequence[int], store: Store, probe: bool = False
    ) -> Iterator[Update]:
        for clients in self.jobs(task, cohort):
            with blame(clients, sent.round):
                memory = store.load(task, sent, clients)
                update = self.run(task, sent, clients, memory, probe)
                store.save(clients, {**memory, **update.memory})
            yield update


@contextmanager
def blame(clients: Sequence[int], round: int) -> Iterator[None]:
    """Add to whatever is raised inside where it happened."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in round {round}, client{'s' if len(clients) > 1 else ''} {', '.join(map(str, clients))}")
        raise
