"""How much a client counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Weighting(Protocol):
    """How much a client counts."""

    def __call__(self, samples: Tensor) -> Tensor:
        """Weights from the clients' numbers of samples."""
        ...


@dataclass(frozen=True)
class Equal:
    """Every client counts the same, as the paper prints it."""

    def __call__(self, samples: Tensor) -> Tensor:
        return torch.ones_like(samples, dtype=torch.float64)


@dataclass(frozen=True)
class BySamples:
    """A client counts by its number of samples, as the authors' program does."""

    def __call__(self, samples: Tensor) -> Tensor:
        return samples.double()
