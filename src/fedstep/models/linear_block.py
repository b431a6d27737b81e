"""A block of clients of a linear model: a product forward, a product back, and no copies."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from fedstep.core.types import Batch, Output
from fedstep.core.vec import Vec
from fedstep.models.flat import FlatModel
from fedstep.models.layout import ParameterLayout
from fedstep.models.linear_line import scored_rows

# numbers of a weight: from there on a copy of the gradient costs as much as a product
LARGE = 2**14


class MaybeLinear(FlatModel):
    """A module that may be one linear layer behind layers that train nothing (`linear`)."""

    module: nn.Module
    layout: ParameterLayout

    def features(self, inputs: Tensor) -> Tensor:
        """What the linear layer of a linear model sees."""
        if not isinstance(self.module, nn.Sequential):
            return inputs
        return cast(Tensor, self.module[:-1](inputs))

    @property
    def layer_shape(self) -> tuple[int, int]:
        """Outputs and inputs of the linear layer of a linear model."""
        outputs, inputs = self.layout.places[0].shape
        return outputs, inputs

    def layer(self, x: Vec) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the linear layer of a linear model, as views into x."""
        weight, *rest = self.layout.parameters(x).values()
        if not rest:
            return weight, None
        return weight, rest[0]

    def block(self, x: Vec, batch: Batch) -> Output:
        predictions = self._of_block(x, batch)
        if predictions is None:
            return super().block(x, batch)
        return Output(scored_rows(self, predictions, batch), predictions)

    def predicted(self, x: Vec, batch: Batch) -> Tensor:
        predictions = self._of_block(x, batch)
        if predictions is None:
            return super().predicted(x, batch)
        return predictions

    def _of_block(self, x: Vec, batch: Batch) -> Tensor | None:
        """Predictions for a block of a linear model; None where it is no layer of vectors."""
        if not self.linear or x.dim() != 2 or len(batch.fields) != 2:
            return None
        clients, samples = batch.inputs.shape[:2]
        # what is in front of the layer treats every sample alone: the clients' are one long batch
        features = self.features(batch.inputs.flatten(0, 1))
        outputs, inputs = self.layer_shape
        if features.shape != (clients * samples, inputs):
            return None
        return linear_predictions(
            x,
            features.view(clients, samples, inputs),
            outputs,
            bias=len(self.layout.places) > 1,
        )


def linear_predictions(
    x: Vec,
    features: Tensor,
    outputs: int,
    bias: bool,
) -> Tensor:
    """X W' + b of every client, `(C, B, outputs)`.

    x is `(C, d)` with the weight `(outputs, inputs)` first and the bias behind it, as nn.Linear has
    them; features are `(C, B, inputs)`. A vmapped pass computes the same, but transposes and copies
    a tensor as large as all models several times on its way back.
    """
    predictions = _BlockProduct.apply(  # type: ignore[no-untyped-call]
        x,
        features,
        outputs,
        bias,
    )
    return cast(Tensor, predictions)


def _weights(x: Vec, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
    """Views of the weights `(C, outputs, inputs)` and of what is behind them."""
    size = outputs * inputs
    weight = x[:, :size].view(len(x), outputs, inputs)
    return weight, x[:, size:]


class _BlockProduct(torch.autograd.Function):
    """X W' + b; its gradient is written straight into one flat tensor."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Vec,
        features: Tensor,
        outputs: int,
        bias: bool,
    ) -> Tensor:
        ctx.save_for_backward(features)
        ctx.bias = bias
        ctx.outputs = outputs
        weight, behind = _weights(x, outputs, features.shape[-1])
        product = features @ weight.mT
        if bias:
            product += behind.unsqueeze(1)
        return product

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Vec, None, None, None]:
        (residuals,) = grads
        (features,) = ctx.saved_tensors
        weight_size = ctx.outputs * features.shape[-1]
        # Somebody may differentiate the gradient, and what is written in place has no derivative.
        # Small gradients are copied: so they have the bits of any other pass through the layer.
        if torch.is_grad_enabled() or weight_size < LARGE:
            return _gradient(residuals, features, ctx.bias), None, None, None
        size = weight_size
        if ctx.bias:
            size += ctx.outputs
        gradient = residuals.new_empty(len(residuals), size)
        weight, behind = _weights(gradient, ctx.outputs, features.shape[-1])
        torch.bmm(residuals.mT, features, out=weight)
        if ctx.bias:
            torch.sum(residuals, 1, out=behind)
        return gradient, None, None, None


def _gradient(residuals: Tensor, features: Tensor, bias: bool) -> Vec:
    # in the order of autograd, which has the transposed weight as its factor
    weight = torch.bmm(features.mT, residuals).mT.flatten(1)
    if not bias:
        return weight
    return torch.cat([weight, residuals.sum(1)], 1)
