"""How much a client counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.errors import InputError


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
        # float64, as above: numbers of samples are exact in it
        return samples.double()


@dataclass(frozen=True)
class SamplesUpTo(Weighting):
    """A client counts by its number of samples, but never for more than `most` of them.

        w_i = min(n_i, most)

    A hundred copies of a sample, or a number that is made up, then weigh no more than any client
    may. Take a few times the usual number of samples; with the largest it is `BySamples()`.
    """

    most: float

    def __post_init__(self) -> None:
        if not self.most > 0:
            raise InputError(f"SamplesUpTo(most={self.most}): give a number of samples above 0")

    def __call__(self, samples: Tensor) -> Tensor:
        return samples.double().clamp(max=self.most)
