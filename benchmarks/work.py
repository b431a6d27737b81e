"""What everyone is given: the same arrays, the same start, the same number of batches."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from math import ceil

import numpy as np


@dataclass(frozen=True)
class Work:
    """A round: every client walks `epochs` times through its samples, in a new order each time, in batches, by SGD.

    The last batch of a pass is shorter where `batch` does not divide the number of samples. The server takes the mean.
    """

    name: str
    inputs: np.ndarray  # (clients, samples, ...)
    targets: np.ndarray  # (clients, samples)
    start: dict[str, np.ndarray]  # under the names and in the shapes of the torch module
    step: float
    epochs: int
    batch: int = 50

    @property
    def clients(self) -> int:
        return self.inputs.shape[0]

    @property
    def samples(self) -> int:
        return self.inputs.shape[1]

    @property
    def batches(self) -> int:
        """Batches of a client in a round."""
        return self.epochs * ceil(self.samples / self.batch)


def load(name: str, scale: str) -> Work:
    """The workload of `workloads/<name>.py` at scale "full" or "smoke"."""
    return import_module(f"workloads.{name}").make(scale)


def uniform(rng: np.random.Generator, fan_in: int, *shape: int) -> np.ndarray:
    """Torch's usual start: uniform in +-1 / sqrt(fan_in)."""
    return rng.uniform(-1, 1, shape).astype(np.float32) / np.float32(np.sqrt(fan_in))
