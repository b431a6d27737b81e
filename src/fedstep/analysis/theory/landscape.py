"""The functions of a federation: every client's loss over all its samples, and their weighted
mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fedstep.analysis.theory.curvature import Function
from fedstep.analysis.theory.minimum import value_and_gradient
from fedstep.core.seeds import generator
from fedstep.core.types import Batch, Context, Output
from fedstep.core.vec import Scalar, Vec, norm_sq
from fedstep.execute.task import Task
from fedstep.local.objective import Objective
from fedstep.local.terms import L2
from fedstep.models.flat import FlatModel


@dataclass(frozen=True)
class Slopes:
    """Squared lengths of gradients at a point."""

    of_mean: float  # |grad f|^2
    mean: float  # mean over clients of |grad f_i|^2


@dataclass(frozen=True)
class Landscape:
    """f = mean_i f_i over some clients, weighted as the method weights them.

    Each f_i has the method's L2 terms but no others.
    """

    task: Task
    model: FlatModel  # in its evaluating form
    clients: tuple[int, ...]  # in ascending order
    weights: tuple[float, ...]  # one for every client; their sum is 1

    @staticmethod
    def of(task: Task, most: int) -> Landscape:
        """Over all clients, or over a random sample where there are more than `most`."""
        population = len(task.federation)
        # a generator of its own: looking must not change what the run draws
        drawing = generator(task.seed, "theory")
        order = torch.randperm(population, generator=drawing).tolist()
        clients = tuple(sorted(order[:most]))
        sizes = torch.tensor([task.federation.size(client) for client in clients])
        weights = task.algorithm.weighting(sizes)
        shares = weights / weights.sum()
        return Landscape(
            task=task,
            model=task.model.evaluating(),  # dropout would make f another function at every call
            clients=clients,
            weights=tuple(shares.tolist()),
        )

    @property
    def terms(self) -> tuple[L2, ...]:
        """The method's terms that are part of f."""
        terms = self.task.algorithm.local.terms
        return tuple(term for term in terms if isinstance(term, L2))

    def on(self, batch: Batch) -> Objective:
        """The loss of any batch, with the L2 terms."""
        context = Context(self.model.init(), self.model)
        return Objective(context, batch, self.terms)

    def whole(self, client: int) -> Objective:
        """f_i as an objective on one batch of all its samples."""
        index = self.task.federation.parts[client]
        samples = self._samples(index)
        return self.on(samples)

    def first_batch(self, client: int) -> Batch:
        """A client's first batch of the first round."""
        index = self.task.batches(client, 0)[0]
        seed = torch.tensor(self.task.step_seed(client, 0, 0))
        size = self.task.federation.size(client)
        share = torch.tensor(len(index) / size)
        return self.task.gather(
            index,
            share,
            seed,
            None,
            self.model.init(),
        )

    def loss(self, client: int) -> Function:
        """f_i."""
        return self.whole(client)

    def mean(self, x: Vec) -> Scalar:
        """f."""
        return self.average(self.each(x))

    def each(self, x: Vec) -> Tensor:
        """f_i(x) of every client, in one pass over all samples where the model has a loss for
        each.
        """
        batch, owner = self._pool
        losses, _ = self.model.values(x, batch)
        # a mean already: client by client
        if losses.dim() == 0:
            return torch.stack([self.loss(client)(x) for client in self.clients])
        # several losses a sample, such as one for every letter of a text
        if losses.dim() > 1:
            losses = losses.flatten(1).mean(1)
        nothing = torch.zeros(len(self.clients), dtype=losses.dtype)
        sums = nothing.index_add(0, owner, losses)
        means = sums / torch.bincount(owner)
        # the L2 terms do not look at the samples: one value serves all clients
        context = self.on(batch).ctx
        extra = [term(x, Output(sums), batch, context) for term in self.terms]
        return sum(extra, means)

    def losses(self, x: Vec) -> Tensor:
        """f_i(x) of every client, without a gradient."""
        with torch.no_grad():
            return self.each(x).double()

    def value(self, x: Vec) -> float:
        """f(x)."""
        return float(self.average(self.losses(x)))

    def average(self, each: Tensor) -> Tensor:
        """The weighted mean over clients."""
        weights = torch.tensor(self.weights, dtype=each.dtype)
        weighted = weights * each
        return weighted.sum()

    def slopes(self, x: Vec) -> Slopes:
        """How steep f and the clients' functions are at x."""
        total = torch.zeros_like(x, dtype=torch.float64)
        squares: list[float] = []
        for client, weight in zip(self.clients, self.weights, strict=True):
            _, g = value_and_gradient(self.loss(client), x)
            precise = g.double()
            total = total + weight * precise
            squares.append(float(norm_sq(precise)))
        mean = self.average(torch.tensor(squares, dtype=torch.float64))
        of_mean = norm_sq(total)
        return Slopes(of_mean=float(of_mean), mean=float(mean))

    def _samples(self, index: Tensor) -> Batch:
        federation = self.task.federation
        fields: tuple[Tensor, ...] = tuple(f[index] for f in federation.fields)
        # without a generator there is no augmentation, as in evaluation
        if federation.transform is not None:
            fields = federation.transform(fields, None)
        return Batch(
            fields=fields,
            share=torch.tensor(1.0, dtype=torch.float64),
            seed=torch.tensor(0),
        )

    @cached_property
    def _pool(self) -> tuple[Batch, Tensor]:
        """All samples, and which client each is of."""
        parts = []
        owners = []
        for place, client in enumerate(self.clients):
            part = self.task.federation.parts[client]
            parts.append(part)
            owners.append(torch.full_like(part, place))
        samples = self._samples(torch.cat(parts))
        return samples, torch.cat(owners)
