"""The functions of a federation: every client's loss over all its samples, and their weighted mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fedstep.analysis.theory.curvature import Function, gradient
from fedstep.core.seeds import generator
from fedstep.core.types import Batch, Context, Output
from fedstep.core.vec import Scalar, Vec, norm_sq
from fedstep.execute.task import Task
from fedstep.local.objective import Objective
from fedstep.local.terms import L2
from fedstep.models.flat import FlatModel


@dataclass(frozen=True)
class Landscape:
    """f = mean_i f_i over some clients, weighted as the method weights them; f_i has the method's L2 terms but no others."""

    task: Task
    model: FlatModel  # in its evaluating form
    clients: tuple[int, ...]
    weights: tuple[float, ...]

    @staticmethod
    def of(task: Task, most: int) -> Landscape:
        """Over all clients, or over a random sample where there are more than `most`."""
        population = len(task.federation)
        order = torch.randperm(population, generator=generator(task.seed, "theory")).tolist()
        clients = tuple(sorted(order[:most]))
        weights = task.algorithm.weighting(torch.tensor([task.federation.size(c) for c in clients]))
        return Landscape(
            task, task.model.evaluating(), clients, tuple((weights / weights.sum()).tolist())
        )

    def whole(self, client: int) -> Objective:
        """f_i as an objective on one batch of all its samples."""
        return self.on(self._samples(self.task.federation.parts[client]))

    def _samples(self, index: Tensor) -> Batch:
        federation = self.task.federation
        fields: tuple[Tensor, ...] = tuple(f[index] for f in federation.fields)
        fields = fields if federation.transform is None else federation.transform(fields, None)
        return Batch(fields, torch.tensor(1.0, dtype=torch.float64), torch.tensor(0))

    def on(self, batch: Batch) -> Objective:
        """The loss of any batch, with the L2 terms."""
        return Objective(Context(self.model.init(), self.model), batch, self.terms)

    @property
    def terms(self) -> tuple[L2, ...]:
        """The method's terms that are part of f."""
        return tuple(t for t in self.task.algorithm.local.terms if isinstance(t, L2))

    def loss(self, client: int) -> Function:
        """f_i."""
        return self.whole(client)

    def mean(self, x: Vec) -> Scalar:
        """f."""
        return self.average(self.each(x))

    def each(self, x: Vec) -> Tensor:
        """f_i(x) of every client, in one pass over all samples where the model has a loss for each."""
        batch, owner = self._pool
        losses, _ = self.model.values(x, batch)
        if losses.dim() == 0:  # a mean already: client by client
            return torch.stack([self.loss(c)(x) for c in self.clients])
        losses = losses.flatten(1).mean(1) if losses.dim() > 1 else losses
        sums = torch.zeros(len(self.clients), dtype=losses.dtype).index_add(0, owner, losses)
        extra = [t(x, Output(sums), batch, self.on(batch).ctx) for t in self.terms]
        return sum(extra, sums / torch.bincount(owner))

    @cached_property
    def _pool(self) -> tuple[Batch, Tensor]:
        """All samples, and which client each is of."""
        parts = [self.task.federation.parts[c] for c in self.clients]
        owner = torch.cat([torch.full_like(part, i) for i, part in enumerate(parts)])
        return self._samples(torch.cat(parts)), owner

    def losses(self, x: Vec) -> Tensor:
        """f_i(x) of every client, without a gradient."""
        with torch.no_grad():
            return self.each(x).double()

    def value(self, x: Vec) -> float:
        """f(x)."""
        return float(self.average(self.losses(x)))

    def average(self, each: Tensor) -> Tensor:
        """The weighted mean over clients."""
        return (torch.tensor(self.weights, dtype=each.dtype) * each).sum()

    def slopes(self, x: Vec) -> tuple[float, float]:
        """|grad f(x)|^2 and the mean over clients of |grad f_i(x)|^2."""
        total, squares = torch.zeros_like(x, dtype=torch.float64), list[float]()
        for client, weight in zip(self.clients, self.weights, strict=True):
            g = gradient(self.loss(client), x)[1].double()
            total = total + weight * g
            squares.append(float(norm_sq(g)))
        return float(norm_sq(total)), float(
            self.average(torch.tensor(squares, dtype=torch.float64))
        )

    def few(self, number: int) -> Sequence[int]:
        """Some of the clients, for what is costly."""
        return self.clients[:number]
