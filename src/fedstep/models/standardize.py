"""Inputs of mean 0 and variance 1, by the sums of all clients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedstep.core.errors import InputError
from fedstep.data.federation import Federation

SMALLEST = 1e-12  # a column whose deviation is less than this share of its mean is constant


@dataclass(frozen=True)
class InputSums:
    """What a client tells of its inputs: numbers of samples and sums, which add up.

    Only the sum over clients is used, so secure aggregation can hide each of them.
    """

    count: int
    total: Tensor  # (columns,) float64

    def __add__(self, other: InputSums) -> InputSums:
        return InputSums(self.count + other.count, self.total + other.total)

    @property
    def mean(self) -> Tensor:
        return self.total / self.count


class Standardize(nn.Module):
    """A first layer that gives every column mean 0 and variance 1 over the whole federation.

        y = (x - mean) / deviation

    Columns are the last axis of inputs (N, F) and (N, T, F), and the channels of images
    (N, C, H, W). Two rounds of sums: the mean from sums of x, the variance from sums of
    (x - mean)^2, in float64. Both are buffers: saved and loaded with the model, never trained. A
    column that is constant is only shifted.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)

    @staticmethod
    def of(federation: Federation, dtype: torch.dtype = torch.float32) -> Standardize:
        """That of a federation's inputs."""
        inputs = federation.fields[0]
        if federation.transform is not None or not inputs.is_floating_point() or inputs.dim() < 2:
            raise InputError(
                f"Standardize: inputs of {inputs.dtype} with {inputs.dim()} axes: it takes arrays "
                "of real numbers in memory, (N, columns)"
            )
        mean = _summed(federation, None).mean
        variance = _summed(federation, mean).mean
        deviation = variance.sqrt()
        constant = deviation <= SMALLEST * mean.abs()
        deviation = torch.where(constant, torch.ones_like(deviation), deviation)
        return Standardize(mean.to(dtype), deviation.to(dtype))

    def forward(self, inputs: Tensor) -> Tensor:
        mean, deviation = self.mean, self.deviation
        if inputs.dim() == 4:
            mean = mean.view(-1, 1, 1)
            deviation = deviation.view(-1, 1, 1)
        return (inputs - mean) / deviation


def standardized(first: Standardize, module: nn.Module) -> nn.Sequential:
    """The module behind a first layer."""
    # one sequence of layers, so that a linear model is still seen to be one
    layers = [module]
    if type(module) is nn.Sequential:
        layers = list(module)
    return nn.Sequential(first, *layers)


def column_spread(federation: Federation) -> Tensor:
    """The deviation of every column of the inputs, from sums over clients."""
    mean = _summed(federation, None).mean
    return _summed(federation, mean).mean.sqrt()


def _summed(federation: Federation, centre: Tensor | None) -> InputSums:
    """Sums of x, or of (x - centre)^2, client by client."""
    total: InputSums | None = None
    for part in federation.parts:
        own = _client_sums(federation.fields[0][part], centre)
        if total is None:
            total = own
        else:
            total = total + own
    assert total is not None  # a federation has a client
    return total


def _client_sums(inputs: Tensor, centre: Tensor | None) -> InputSums:
    columns = inputs.double()
    if columns.dim() == 4:
        columns = columns.movedim(1, -1)
    rows = columns.reshape(-1, columns.shape[-1])
    if centre is not None:
        rows = (rows - centre) ** 2
    return InputSums(len(rows), rows.sum(0))
