"""How much a client counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor


class Weighting(ABC):
    """How much a client counts."""

    @abstractmethod
    def __call__(self, samples: Tensor) -> Tensor:
        """Weights from the clients' numbers of samples."""


@dataclass(frozen=True)
class Equal(Weighting):
    """Every client counts the same, as the paper prints it."""

    def __call__(self, samples: Tensor) -> Tensor:
        # float64: the weight of the whole population is a sum over all clients
        return torch.ones_like(samples, dtype=torch.float64)


@dataclass(frozen=True)
class BySamples(Weighting):
    """A client counts by its number of samples, as the authors' program does."""

    def __call__(self, samples: Tensor) -> Tensor:
        return samples.double()
