"""A plain function of a flat vector as a model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.core.vec import Vec
from fedstep.models.flat import FlatModel


class FunctionModel(FlatModel):
    """`loss(x, batch)` for one client's x of shape `(d,)`.

    It returns the loss of every sample, or their mean.

    >>> def loss(x, batch):
    ...     return (batch.inputs @ x - batch.targets) ** 2
    >>> FunctionModel(loss, torch.zeros(3)).dim
    3
    """

    def __init__(self, loss: Callable[[Vec, Batch], Tensor], start: Tensor) -> None:
        super().__init__()
        if start.dim() != 1 or start.numel() == 0 or not start.is_floating_point():
            raise InputError(
                "FunctionModel: start must be a vector of floats, "
                f"got shape {tuple(start.shape)}, {start.dtype}"
            )
        self.loss = loss
        self.start = start.detach().clone()

    @property
    def dim(self) -> int:
        return self.start.numel()

    def init(self) -> Vec:
        return self.start.clone()

    def starting_at(self, x: Vec) -> Self:
        twin = copy.copy(self)
        twin.start = x.detach().clone()
        return twin

    def on(self, device: torch.device) -> Self:
        return self.starting_at(self.start.to(device))

    def evaluating(self) -> FunctionModel:
        return self

    def values(self, x: Vec, batch: Batch) -> tuple[Tensor, None]:
        # a function may return a plain number where its batch is empty of meaning
        return torch.as_tensor(self.loss(x, batch)), None
