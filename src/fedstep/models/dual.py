"""A linear model in the span of a client's own samples: the dual, or Gram, form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.nn.functional import embedding

from fedstep.core.types import Batch, Head, Output, OutputAlongLine
from fedstep.core.vec import Scalar, Vec
from fedstep.models.linear_line import LinearLine, scored_rows
from fedstep.models.module import ModuleModel


@dataclass
class BatchCache:
    """What was computed last. A search asks for the same batch, direction and gradient many times.

    Compared by identity: no tensor is ever written to after it was handed on.
    """

    batch: Batch | None = None
    gram_rows: Tensor | None = None  # (C, B, N): rows of G that belong to the batch
    logits: Tensor | None = None  # (C, B, classes): at the anchor
    direction: Vec | None = None
    along: Tensor | None = None  # (C, B, classes): logits along the direction
    gradient: Vec | None = None
    residuals: Tensor | None = None  # (C, B, classes): of the gradient


@dataclass(frozen=True)
class Dual:
    """A block of clients of a linear model, each in coordinates u of the span of its n samples.

        W = W_t + X' u,  logits(X) = Z_t + G u,  G = X X' + 1 (the 1 for the bias)

    Z_t are the logits at the model sent. A gradient of a batch is X_b' r with r = dloss/dlogits: in
    coordinates it is r itself, put into the batch's rows, so a step costs one product of b x n
    instead of two of b x features. Steps, values and inner products are those of the plain form,
    exact to rounding: tests/models/test_dual.py. In the place of inputs a batch has two fields:
    positions among the client's samples, and the client's row in this block. The loss must be one
    number a sample.
    """

    head: ClassVar[Head | None] = None
    # coordinates of samples, not of parameters: no matrix lies there
    shapes: ClassVar[tuple[tuple[int, ...], ...]] = ()
    model: ModuleModel
    anchor: Vec  # (d,)
    inputs: Tensor  # (C, N, features), short clients padded with zeros
    gram: Tensor  # (C, N, N)
    logits: Tensor  # (C, N, classes) at the anchor
    _cache: BatchCache = field(default_factory=BatchCache, repr=False, compare=False)

    @staticmethod
    def of(
        model: ModuleModel,
        anchor: Vec,
        inputs: Sequence[Tensor],
        grams: Sequence[Tensor],
    ) -> Dual:
        """From each client's inputs, (n, features), and Gram matrix, (n, n)."""
        # zeros as padding: a sample of zeros has no inner product with any other and no gradient
        longest = max(map(len, inputs))
        features = inputs[0].shape[1]
        pooled_inputs = anchor.new_zeros(len(inputs), longest, features)
        pooled_grams = anchor.new_zeros(len(inputs), longest, longest)
        for row, (client_inputs, gram) in enumerate(zip(inputs, grams, strict=True)):
            size = len(client_inputs)
            pooled_inputs[row, :size] = client_inputs
            pooled_grams[row, :size, :size] = gram
        weight, bias = model.layer(anchor)
        logits = pooled_inputs @ weight.T
        if bias is not None:
            logits = logits + bias
        return Dual(
            model,
            anchor,
            pooled_inputs,
            pooled_grams,
            logits,
        )

    @staticmethod
    def gram_of(model: ModuleModel, inputs: Tensor) -> Tensor:
        """One client's Gram matrix."""
        gram = inputs @ inputs.T
        _, bias = model.layer(model.init())
        if bias is None:
            return gram
        # a bias is the weight of an input that is always 1
        return gram + 1

    def enter(self, x: Vec) -> Vec:
        """The model sent, in coordinates: nothing has been added to it."""
        return torch.zeros_like(self.logits).flatten(1)

    def leave(self, u: Vec) -> Vec:
        """The parameters at u."""
        u = u.view_as(self.logits)
        added = (u.transpose(1, 2) @ self.inputs).flatten(1)
        _, bias = self.model.layer(self.anchor)
        # the bias follows the weight in the flat vector, as in nn.Linear
        if bias is not None:
            added = torch.cat([added, u.sum(1)], 1)
        return self.anchor + added

    def __call__(self, x: Vec, batch: Batch) -> Output:
        gram_rows, logits = self._rows(batch)
        added = _GramProduct.apply(x, gram_rows, batch.inputs)  # type: ignore[no-untyped-call]
        predictions = logits + cast(Tensor, added)
        return Output(scored_rows(self.model, predictions, batch), predictions)

    def line(
        self,
        at_x: Output,
        d: Vec,
        batch: Batch,
    ) -> OutputAlongLine | None:
        if at_x.predictions is None:
            return None
        return LinearLine(
            self.model,
            at_x.predictions.detach(),
            self._along(d, batch),
            batch,
        )

    def slope(
        self,
        g: Vec,
        d: Vec,
        batch: Batch,
    ) -> Scalar:
        """<g, d> for a gradient of this batch: sum over its rows of r times the logits along d."""
        products = self._residuals(g, batch) * self._along(d, batch)
        return products.sum((1, 2))

    def norm_sq(self, g: Vec, batch: Batch) -> Scalar:
        """|g|^2 for a gradient of this batch: only its rows count."""
        gram_rows, _ = self._rows(batch)
        # of the rows of G only the columns of this batch: r is zero elsewhere
        columns = batch.inputs.unsqueeze(1).expand(-1, gram_rows.shape[1], -1)
        batch_gram = gram_rows.gather(2, columns)
        r = self._residuals(g, batch)
        return (r * (batch_gram @ r)).sum((1, 2))

    def _residuals(self, g: Vec, batch: Batch) -> Tensor:
        """The rows of g that belong to the batch.

        A sample that occurs more than once (padding) counts once.
        """
        cache = self._cache
        if cache.gradient is not g or cache.residuals is None:
            at = batch.inputs
            all_rows = g.view(len(g), self.gram.shape[1], -1)
            picked = all_rows.gather(1, at.unsqueeze(-1).expand(-1, -1, all_rows.shape[2]))
            ones = torch.ones_like(at, dtype=g.dtype)
            times = picked.new_zeros(all_rows.shape[:2]).scatter_add_(1, at, ones)
            cache.residuals = picked / times.gather(1, at).unsqueeze(-1)
            cache.gradient = g
        return cache.residuals

    def _rows(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Rows of G and logits at the anchor of a batch."""
        cache = self._cache
        if cache.batch is not batch or cache.gram_rows is None or cache.logits is None:
            at = batch.fields[0]
            owner = batch.fields[1]
            # an embedding gathers whole rows much faster than indexing does
            row = owner * self.gram.shape[1] + at
            cache.gram_rows = embedding(row, self.gram.flatten(0, 1))
            cache.logits = embedding(row, self.logits.flatten(0, 1))
            cache.batch = batch
            cache.direction = None  # what is known along it belongs to the batch before
        return cache.gram_rows, cache.logits

    def _along(self, d: Vec, batch: Batch) -> Tensor:
        gram_rows, _ = self._rows(batch)
        cache = self._cache
        if cache.direction is not d or cache.along is None:
            cache.along = gram_rows @ d.view(len(d), self.gram.shape[1], -1)
            cache.direction = d
        return cache.along


class _GramProduct(torch.autograd.Function):
    """G_b u, with the gradient that belongs to the inner product <u, G v>.

    That is the residuals in the batch's rows: autograd's own would be G times them.
    """

    @staticmethod
    def forward(
        ctx: Any,
        u: Vec,
        gram_rows: Tensor,
        at: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(at)
        samples = gram_rows.shape[2]
        ctx.shape = (len(u), samples, u.shape[1] // samples)
        return gram_rows @ u.view(ctx.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (residual,) = grads
        (at,) = ctx.saved_tensors
        gradient = residual.new_zeros(ctx.shape)
        # added, not written: a padded sample occurs twice in its batch
        gradient.scatter_add_(1, at.unsqueeze(-1).expand_as(residual), residual)
        return gradient.flatten(1), None, None
