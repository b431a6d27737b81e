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
from fedstep.models.flat import LinearLine, scored_rows
from fedstep.models.module import ModuleModel


@dataclass(frozen=True)
class Dual:
    """A block of clients of a linear model, each in coordinates u of the span of its n samples.

        W = W_t + X' u,  logits(X) = Z_t + G u,  G = X X' + 1 (the 1 for the bias),  Z_t = logits at the model sent

    A gradient of a batch is X_b' r with r = dloss/dlogits: in coordinates it is r itself, put into the batch's rows, so a step
    costs one product of b x n instead of two of b x features. Steps, values and inner products are those of the plain form,
    exact to rounding: tests/models/test_dual.py. In the place of inputs a batch has two fields: positions among the client's
    samples, and the client's row in this block. The loss must be one number a sample.
    """

    head: ClassVar[Head | None] = None
    model: ModuleModel
    anchor: Vec  # (d,)
    inputs: Tensor  # (C, N, features), short clients padded with zeros
    gram: Tensor  # (C, N, N)
    logits: Tensor  # (C, N, classes) at the anchor
    _seen: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def of(
        model: ModuleModel, anchor: Vec, inputs: Sequence[Tensor], grams: Sequence[Tensor]
    ) -> Dual:
        """From each client's inputs, (n, features), and Gram matrix, (n, n)."""
        longest = max(map(len, inputs))
        x = anchor.new_zeros(len(inputs), longest, inputs[0].shape[1])
        gram = anchor.new_zeros(len(inputs), longest, longest)
        for row, (own, g) in enumerate(zip(inputs, grams, strict=True)):
            x[row, : len(own)] = own
            gram[row, : len(own), : len(own)] = g
        weight, bias = model.layer(anchor)
        logits = x @ weight.T
        return Dual(model, anchor, x, gram, logits if bias is None else logits + bias)

    @staticmethod
    def gram_of(model: ModuleModel, inputs: Tensor) -> Tensor:
        """One client's Gram matrix."""
        gram = inputs @ inputs.T
        return gram + 1 if model.layer(model.init())[1] is not None else gram

    def enter(self, x: Vec) -> Vec:
        """The model sent, in coordinates: nothing has been added to it."""
        return self.logits.new_zeros(*self.logits.shape).flatten(1)

    def leave(self, u: Vec) -> Vec:
        """The parameters at u."""
        u = u.view_as(self.logits)
        weight = (u.transpose(1, 2) @ self.inputs).flatten(1)
        bias = self.model.layer(self.anchor)[1]
        return self.anchor + (weight if bias is None else torch.cat([weight, u.sum(1)], 1))

    def __call__(self, x: Vec, batch: Batch) -> Output:
        rows, base = self._rows(batch)
        predictions = base + cast(Tensor, _Rows.apply(x, rows, batch.inputs))  # type: ignore[no-untyped-call]
        return Output(scored_rows(self.model, predictions, batch), predictions)

    def line(self, at_x: Output, d: Vec, batch: Batch) -> OutputAlongLine | None:
        if at_x.predictions is None:
            return None
        return LinearLine(self.model, at_x.predictions.detach(), self._along(d, batch), batch)

    def slope(self, g: Vec, d: Vec, batch: Batch) -> Scalar:
        """<g, d> for a gradient of this batch: sum over its rows of r times the logits along d."""
        return (self._residuals(g, batch) * self._along(d, batch)).sum((1, 2))

    def norm_sq(self, g: Vec, batch: Batch) -> Scalar:
        """|g|^2 for a gradient of this batch: only its rows count."""
        rows, _ = self._rows(batch)
        own = rows.gather(2, batch.inputs.unsqueeze(1).expand(-1, rows.shape[1], -1))
        r = self._residuals(g, batch)
        return (r * (own @ r)).sum((1, 2))

    def _residuals(self, g: Vec, batch: Batch) -> Tensor:
        """The rows of g that belong to the batch; a sample that occurs more than once (padding) counts once."""
        if self._seen.get("g") is not g:
            own, at = g.view(len(g), self.gram.shape[1], -1), batch.inputs
            picked = own.gather(1, at.unsqueeze(-1).expand(-1, -1, own.shape[2]))
            times = picked.new_zeros(own.shape[:2]).scatter_add_(
                1, at, torch.ones_like(at, dtype=g.dtype)
            )
            self._seen.update(g=g, residuals=picked / times.gather(1, at).unsqueeze(-1))
        return cast(Tensor, self._seen["residuals"])

    def _rows(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Rows of G and logits at the anchor of a batch; one batch is used many times in a row."""
        if self._seen.get("batch") is not batch:
            at, owner = batch.fields[0], batch.fields[1]
            flat = owner * self.gram.shape[1] + at
            rows = (
                embedding(flat, self.gram.flatten(0, 1)),
                embedding(flat, self.logits.flatten(0, 1)),
            )
            self._seen.update(batch=batch, rows=rows, d=None)
        return cast(tuple[Tensor, Tensor], self._seen["rows"])

    def _along(self, d: Vec, batch: Batch) -> Tensor:
        rows, _ = self._rows(batch)
        if self._seen["d"] is not d:
            self._seen.update(d=d, along=rows @ d.view(len(d), self.gram.shape[1], -1))
        return cast(Tensor, self._seen["along"])


class _Rows(torch.autograd.Function):
    """G_b u, with the gradient that belongs to the inner product <u, G v>: the residuals in the batch's rows."""

    @staticmethod
    def forward(ctx: Any, u: Vec, rows: Tensor, at: Tensor) -> Tensor:
        ctx.save_for_backward(at)
        ctx.shape = (len(u), rows.shape[2], u.shape[1] // rows.shape[2])
        return rows @ u.view(ctx.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (residual,), (at,) = grads, ctx.saved_tensors
        u = residual.new_zeros(ctx.shape)
        return (
            u.scatter_add_(1, at.unsqueeze(-1).expand_as(residual), residual).flatten(1),
            None,
            None,
        )
