"""What does not change from round to round, and the batches that come of it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.algorithm import Algorithm
from fedstep.core.seeds import generator, key
from fedstep.core.types import Batch, Forward
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
        """A client's batches of a round as indices into the pooled arrays."""
        part = self.federation.parts[client]
        return [part[index] for index in self.positions(client, round, probe)]

    def positions(self, client: int, round: int, probe: bool = False) -> list[Tensor]:
        """A client's batches of a round as positions among its own samples; a probe walks once through all of them."""
        plan = Plan(self.plan.batch, None, 1, InOrder()) if probe else self.plan
        return plan(self.federation.size(client), self.seed, round, client)

    def step_seed(self, client: int, round: int, step: int) -> int:
        """The seed of what is random inside the forward passes of one local step."""
        return key(self.seed, round, client, step, "forward")

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
        fields = tuple(f[index] for f in self.federation.fields)
        if self.federation.transform is not None:
            fields = self._transformed(self.federation.transform, fields, seed)
        fields = tuple(f.to(like.device) for f in fields)
        mask = None if mask is None else mask.to(like.device)
        return Batch(fields, share.to(like), seed, mask, None if steps is None else steps.to(like))

    def place(
        self,
        index: Tensor,
        pooled: Tensor,
        rows: Tensor,
        share: Tensor,
        mask: Tensor | None,
        like: Tensor,
        steps: Tensor,
    ) -> Batch:
        """A batch without its inputs: positions among the clients' samples, the clients' rows in their block, targets.

        For models in which nothing is random, so the seeds are zeros.
        """
        fields = (index, rows.unsqueeze(-1).expand_as(index), self.federation.fields[-1][pooled])
        moved = tuple(f.to(like.device) for f in fields)
        mask = None if mask is None else mask.to(like.device)
        return Batch(moved, share.to(like), torch.zeros_like(rows), mask, steps.to(like))

    def watched(self, forward: Forward) -> Forward:
        """The model as clients are given it; a place to look over its shoulder."""
        return forward

    def working(self) -> AbstractContextManager[None]:
        """Around the work of a job."""
        return nullcontext()

    def told(self) -> dict[str, float]:
        """What was counted since the last time, for the process that `heard` it."""
        return {}

    def heard(self, seconds: dict[str, float]) -> None:
        """Take what another process has counted."""

    def _transformed(
        self, transform: Transform, fields: tuple[Tensor, ...], seed: Tensor
    ) -> tuple[Tensor, ...]:
        """Client by client, so that the random numbers do not depend on who else is in the block."""
        if seed.dim() == 0:
            return transform(fields, generator(int(seed), "augment"))
        each = []
        for client_seed, *client_fields in zip(seed, *fields, strict=True):
            draw = generator(int(client_seed), "augment")
            each.append(transform(tuple(client_fields), draw))
        return tuple(torch.stack(column) for column in zip(*each, strict=True))
