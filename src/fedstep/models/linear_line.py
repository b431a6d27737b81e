"""The losses of a linear model along a line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from fedstep.core.types import Batch, Output
from fedstep.core.vec import Scalar, Vec, lift
from fedstep.models.means import masked_mean, mean_loss, sample_losses


class Scorer(Protocol):
    """The loss of a model as a function of its predictions."""

    pointwise: bool

    def scored(self, predictions: Tensor, batch: Batch) -> Tensor: ...


# predictions of a linear model: at parameters `(C, d)` or `(d,)`, on a batch
Predictor: TypeAlias = Callable[[Vec, Batch], Tensor]


@dataclass(frozen=True)
class LazyLine:
    """A line whose product with d is made when somebody walks along it, for those who do.

    A search that tests one step in eight needs the product in one step of eight.
    """

    model: Scorer
    predict: Predictor
    p: Tensor
    d: Vec
    batch: Batch
    _made: list[LinearLine] = field(default_factory=list, repr=False, compare=False)

    def among(self, active: Tensor) -> LinearLine:
        """The line for these clients of the block; to the others it is flat."""
        if active.dim() == 0 or bool(active.all()):
            return self._whole()
        rows = active.nonzero().squeeze(-1)
        q = torch.zeros_like(self.p)
        q[rows] = self.predict(self.d[rows], self.batch.rows(rows))
        return LinearLine(self.model, self.p, q, self.batch)

    def __call__(self, eta: Scalar, rows: Tensor | None) -> Output:
        return self._whole()(eta, rows)

    def _whole(self) -> LinearLine:
        if not self._made:
            with torch.no_grad():
                q = self.predict(self.d, self.batch)
            self._made.append(LinearLine(self.model, self.p, q, self.batch))
        return self._made[0]


@dataclass(frozen=True)
class LinearLine:
    """Predictions p + eta q, p at x and q at d."""

    model: Scorer
    p: Tensor
    q: Tensor
    batch: Batch

    def among(self, active: Tensor) -> LinearLine:
        """The line for these clients of the block: it is made already, for all."""
        return self

    def __call__(self, eta: Scalar, rows: Tensor | None) -> Output:
        # searches that are over drop out of the block
        if rows is not None:
            some = LinearLine(
                self.model,
                self.p[rows],
                self.q[rows],
                self.batch.rows(rows),
            )
            return some(eta, None)
        # the model is not called: all trials of a search cost one pass along d
        predictions = self.p + lift(eta, self.q) * self.q
        if eta.dim() == 0:
            losses = self.model.scored(predictions, self.batch)
            return Output(mean_loss(losses, self.batch.mask), predictions)
        return Output(scored_rows(self.model, predictions, self.batch), predictions)


def scored_rows(model: Scorer, predictions: Tensor, batch: Batch) -> Scalar:
    """Mean loss of each client of a block from its predictions."""
    if model.pointwise:
        return _scored_as_one_batch(model, predictions, batch)

    def one(
        p: Tensor,
        fields: tuple[Tensor, ...],
        share: Tensor,
        seed: Tensor,
        mask: Tensor | None,
    ) -> Tensor:
        return mean_loss(
            model.scored(
                p,
                Batch(
                    fields,
                    share,
                    seed,
                    mask,
                ),
            ),
            mask,
        )

    mask_axis = None
    if batch.mask is not None:
        mask_axis = 0
    over_clients = torch.vmap(one, (0, 0, 0, 0, mask_axis))
    return over_clients(
        predictions,
        batch.fields,
        batch.share,
        batch.seed,
        batch.mask,
    )


def _scored_as_one_batch(model: Scorer, predictions: Tensor, batch: Batch) -> Scalar:
    # samples do not see one another, so the clients' batches are one long batch: no vmap, which
    # would cost more than the loss
    fields = tuple(field.flatten(0, 1) for field in batch.fields)
    long = Batch(fields, batch.share, batch.seed)
    each = sample_losses(model.scored(predictions.flatten(0, 1), long))
    losses = each.view(predictions.shape[:2])
    if batch.mask is None:
        return losses.mean(1)
    return masked_mean(losses, batch.mask)
