"""What does not change from round to round, and the batches that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedstep.algorithm import Algorithm
from fedstep.core.seeds import generator, key, keys
from fedstep.core.types import Batch, TargetKind
from fedstep.data.federation import Federation, Transform
from fedstep.data.plan import BatchWalk, InOrder, Plan
from fedstep.execute.profiler import Profiler
from fedstep.models.flat import FlatModel

EXAMPLES = 3  # with one of them as padding two are left, which batch statistics need


@dataclass(frozen=True)
class Task:
    """Everything about a run that does not change from round to round."""

    algorithm: Algorithm
    model: FlatModel
    federation: Federation  # the clients and their samples
    plan: Plan = Plan()  # how a client walks through its samples
    seed: int = 0  # of all that is random in the run
    # looks on and decides nothing: two tasks are equal whoever watches them
    profiler: Profiler = field(default=Profiler(), compare=False, repr=False)

    def __post_init__(self) -> None:
        # Here, once: what cannot work together is refused before the first round. By samples that
        # are read for it: the arrays of a lazy federation hold numbers of samples only.
        example = self._example()
        suited = self.algorithm.suited(self.model, TargetKind.of(example.targets))
        # the class is frozen for its users; here it is still being made
        object.__setattr__(self, "algorithm", suited)
        object.__setattr__(self, "model", self.model.counting(self._targets(example)))
        if suited.correction.embeds:
            object.__setattr__(self, "model", self.model.embedding())
        object.__setattr__(self, "model", self.model.examined(example))

    @property
    def update_bytes(self) -> int:
        """The size of a delta: what a driver holds of every update that waits for its turn."""
        start = self.model.init()
        return start.numel() * start.element_size()

    def _targets(self, example: Batch) -> Tensor | None:
        """All targets; None where they are known only when they are read."""
        targets = self.federation.fields[-1]
        # a lazy pool has numbers of samples in their place
        if len(self.federation.fields) == len(example.fields):
            return targets
        # one label a sample is never padding
        if example.targets.dim() == 1:
            return example.targets
        return None

    def _example(self) -> Batch:
        """A few samples to examine the model with, of any client."""
        samples = self.federation.parts.samples
        index = samples[torch.arange(EXAMPLES) % len(samples)]
        share = torch.tensor(1.0)
        seed = torch.tensor(self.step_seed(client=0, round=0, step=0))
        return self.gather(index, share, seed, mask=None, like=self.model.init())

    def samples(self, clients: Sequence[int]) -> Tensor:
        """How many samples each client has with a target that counts: 0 where none does."""
        sizes = self.federation.sizes_of(clients)
        if not self.model.ignores_targets:
            return sizes
        targets = self.federation.fields[-1]
        for row, client in enumerate(clients):
            batch = Batch((targets[self.federation.parts[client]],), sizes[row], sizes[row])
            counted = self.model.counted(batch)
            # a lazy pool has numbers of samples in the place of targets: none of them is ignored
            if counted is not None:
                sizes[row] = counted.reshape(len(counted), -1).any(1).sum()
        return sizes

    def batches(
        self,
        client: int,
        round: int,
        probe: bool = False,
    ) -> list[Tensor]:
        """A client's batches of a round as indices into the pooled arrays."""
        part = self.federation.parts[client]
        return [part[index] for index in self.positions(client, round, probe)]

    def positions(
        self,
        client: int,
        round: int,
        probe: bool = False,
    ) -> list[Tensor]:
        """A client's batches of a round as positions among its own samples.

        A probe walks once through all of them.
        """
        with self.profiler.charge("data"):
            return self._plan(probe)(
                self.federation.size(client),
                self.seed,
                round,
                client,
            )

    def walks(
        self,
        clients: Sequence[int],
        round: int,
        probe: bool = False,
    ) -> list[BatchWalk]:
        """The same for several clients, each with its batches laid end to end."""
        plan = self._plan(probe)
        with self.profiler.charge("data"):
            sizes = self.federation.sizes_of(clients).tolist()
            return plan.walks(sizes, self.seed, round, clients)

    def _plan(self, probe: bool) -> Plan:
        if not probe:
            return self.plan
        # a probe is of the whole function of a client: every sample counts once, in any order
        return Plan(
            self.plan.batch,
            steps=None,
            epochs=1,
            order=InOrder(),
        )

    def step_seed(
        self,
        client: int,
        round: int,
        step: int,
    ) -> int:
        """The seed of what is random inside the forward passes of one local step."""
        return key(self.seed, round, client, step, "forward")

    def step_seeds(
        self,
        clients: Sequence[int],
        round: int,
        step: int,
    ) -> list[int]:
        """The same for several clients."""
        return keys([self.seed, round], clients, [step, "forward"])

    def gather(
        self,
        index: Tensor,
        share: Tensor,
        seed: Tensor,
        mask: Tensor | None,
        like: Tensor,
        steps: Tensor | None = None,
    ) -> Batch:
        """The samples of a batch, on the device of the model."""
        with self.profiler.charge("data"):
            fields = tuple(_picked(f, index) for f in self.federation.fields)
            if self.federation.transform is not None:
                fields = _transformed(self.federation.transform, fields, seed)
            return _moved(fields, share, seed, mask, like, steps)

    def gather_positions(
        self,
        index: Tensor,
        pooled: Tensor,
        rows: Tensor,
        share: Tensor,
        mask: Tensor | None,
        like: Tensor,
        steps: Tensor,
    ) -> Batch:
        """A batch without its inputs, for the dual form.

        Its fields are positions among the clients' samples, the clients' rows in their block, and
        the targets. For models in which nothing is random, so the seeds are zeros.
        """
        with self.profiler.charge("data"):
            targets = self.federation.fields[-1][pooled]
            row_of_each = rows.unsqueeze(-1).expand_as(index)
            no_seeds = torch.zeros_like(rows)
            fields = (index, row_of_each, targets)
            return _moved(fields, share, no_seeds, mask, like, steps)


def _picked(field: Tensor, index: Tensor) -> Tensor:
    """field[index]; whole samples are copied at once, which indexing does number by number."""
    if field.dim() == 1:
        return field[index]
    rows = field.index_select(0, index.flatten())
    return rows.view(*index.shape, *field.shape[1:])


def _moved(
    fields: tuple[Tensor, ...],
    share: Tensor,
    seed: Tensor,
    mask: Tensor | None,
    like: Tensor,
    steps: Tensor | None,
) -> Batch:
    """A batch on the device of the model; seeds stay, they are read as numbers."""
    if mask is not None:
        mask = mask.to(like.device)
    if steps is not None:
        steps = steps.to(like)
    return Batch(
        fields=tuple(f.to(like.device) for f in fields),
        share=share.to(like),
        seed=seed,
        mask=mask,
        steps=steps,
    )


def _transformed(
    transform: Transform,
    fields: tuple[Tensor, ...],
    seed: Tensor,
) -> tuple[Tensor, ...]:
    """Client by client, so that the random numbers do not depend on who else is in the block."""
    # one client alone has a seed, a block has a seed a client
    if seed.dim() == 0:
        return transform(fields, generator(int(seed), "augment"))
    each = []
    for client_seed, *client_fields in zip(seed, *fields, strict=True):
        draw = generator(int(client_seed), "augment")
        each.append(transform(tuple(client_fields), draw))
    columns = zip(*each, strict=True)
    return tuple(torch.stack(column) for column in columns)
