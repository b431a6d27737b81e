"""Clients as index sets over pooled arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fedstep.core.errors import InputError


class Transform(Protocol):
    """What is done to samples when they are batched: bytes to floats, augmentation."""

    def __call__(
        self, fields: tuple[Tensor, ...], generator: torch.Generator | None
    ) -> tuple[Tensor, ...]:
        """Samples of one client's batch; without a generator nothing random is done (evaluation)."""
        ...


@dataclass(frozen=True)
class Federation:
    """All samples in shared arrays, `fields` (inputs first, targets last), and each client's index set `parts`."""

    fields: tuple[Tensor, ...]
    parts: tuple[Tensor, ...]
    transform: Transform | None = None

    def __post_init__(self) -> None:
        if not self.parts:
            raise InputError("there are no clients: give at least one")
        for i, part in enumerate(self.parts):
            if part.numel() == 0:
                raise InputError(f"client {i} has no samples: leave it out")
        if len({len(f) for f in self.fields}) > 1:
            raise InputError(f"the fields differ in length: {[len(f) for f in self.fields]}")

    def __len__(self) -> int:
        return len(self.parts)

    def size(self, client: int) -> int:
        return self.parts[client].numel()

    @staticmethod
    def of(clients: Sequence[Any]) -> Federation:
        """From a list of clients, each a tuple of arrays `(inputs, ..., targets)` or a torch Dataset."""
        if len(clients) == 0:
            raise InputError("there are no clients: give at least one")
        each = [fields_of(client, f"client {i}") for i, client in enumerate(clients)]
        try:
            fields = tuple(torch.cat(column) for column in zip(*each, strict=True))
        except (RuntimeError, ValueError) as error:
            raise InputError(f"the clients' arrays do not fit together: {error}") from None
        ends = torch.tensor([len(c[0]) for c in each]).cumsum(0).tolist()
        starts = [0, *ends[:-1]]
        return Federation(
            fields, tuple(torch.arange(a, b) for a, b in zip(starts, ends, strict=True))
        )


def fields_of(data: Any, what: str) -> tuple[Tensor, ...]:
    """Arrays `(inputs, ..., targets)` from a tuple or a torch Dataset; `what` names it in errors."""
    if isinstance(data, torch.utils.data.TensorDataset):
        data = data.tensors
    elif isinstance(data, torch.utils.data.Dataset):
        data = _stacked(data, what)
    if not isinstance(data, tuple | list) or len(data) < 2:
        raise InputError(
            f"{what} is a {type(data).__name__}: give a pair of arrays (inputs, targets) or a Dataset"
        )
    fields = tuple(torch.as_tensor(f) for f in data)
    lengths = [len(f) if f.dim() else -1 for f in fields]
    if len(set(lengths)) > 1 or lengths[0] < 0:
        raise InputError(f"{what}: inputs and targets differ in length ({lengths})")
    if lengths[0] == 0:
        raise InputError(f"{what} has no samples: leave it out")
    return fields


def _stacked(dataset: Any, what: str) -> tuple[Tensor, ...]:
    samples = [dataset[k] for k in range(len(dataset))]
    if not samples:
        raise InputError(f"{what} has no samples: leave it out")
    return tuple(
        torch.stack([torch.as_tensor(v) for v in column]) for column in zip(*samples, strict=True)
    )
