"""Samples of somebody's own code, which may raise whatever it likes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset

from fedstep.core.errors import InputError


@dataclass(frozen=True)
class NamedSamples(Dataset[Any]):
    """Samples by number; whose cannot be read is named, also in the middle of a run."""

    what: str
    samples: Any

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, number: int) -> Any:
        # by number and not by iteration: a Dataset promises __getitem__, and its end need not raise
        try:
            return self.samples[number]
        except Exception as error:
            # any error of the user's code; theirs stays in sight as the cause of this one
            raise InputError(
                f"{self.what}: sample {number} cannot be read ({type(error).__name__}: {error})"
            ) from error
