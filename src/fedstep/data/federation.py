"""Clients as index sets over pooled arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from fedstep.core.errors import InputError
from fedstep.data.arrays import as_array
from fedstep.data.parts import Parts


class Transform(Protocol):
    """What is done to samples when they are batched: bytes to floats, augmentation."""

    def __call__(
        self, fields: tuple[Tensor, ...], generator: torch.Generator | None
    ) -> tuple[Tensor, ...]:
        """Samples of one client's batch; without a generator nothing is random (evaluation)."""
        ...


@dataclass(frozen=True)
class Federation:
    """All samples in shared arrays, and which of them each client has.

    `fields` are the arrays, inputs first and targets last; `parts` has one index set a client: a
    `Parts`, or any sequence of arrays of sample numbers.
    """

    fields: tuple[Tensor, ...]
    parts: Parts
    transform: Transform | None = None
    names: tuple[str, ...] | None = None  # of the fields, for a model that is called by keywords
    notes: tuple[str, ...] = ()  # what a user should know of how the samples were read

    def __post_init__(self) -> None:
        # whoever has a list of tensors need not know of Parts
        object.__setattr__(
            self,
            "parts",
            Parts.of(self.parts),
        )
        if len(self.parts) == 0:
            raise InputError("there are no clients: give at least one")
        empty = (self.parts.sizes == 0).nonzero()
        if len(empty) > 0:
            client = self.parts.number(int(empty[0]))
            raise InputError(f"client {client} has no samples: leave it out")
        lengths = [len(field) for field in self.fields]
        if len(set(lengths)) > 1:
            raise InputError(f"the fields differ in length: {lengths}")

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def sizes(self) -> Tensor:
        """How many samples each client has."""
        return self.parts.sizes

    def size(self, client: int) -> int:
        """How many samples a client has."""
        return self.parts.size(client)

    def rows(self, clients: Sequence[int]) -> Tensor:
        """The places of some clients among the parts."""
        parts = self.parts
        # one by one only where it matters: a round may have thousands
        if parts.numbers is not None or min(clients) < 0 or max(clients) >= len(parts):
            clients = [parts.row(client) for client in clients]
        return torch.tensor(clients, dtype=torch.int64)

    def sizes_of(self, clients: Sequence[int]) -> Tensor:
        """How many samples each of some clients has."""
        rows = self.rows(clients)
        offsets = self.parts.offsets
        return offsets[rows + 1] - offsets[rows]

    @staticmethod
    def of(clients: Sequence[Any]) -> Federation:
        """From a list of clients, each a tuple of arrays `(inputs, ..., targets)` or a Dataset."""
        if len(clients) == 0:
            raise InputError("there are no clients: give at least one")
        each = [fields_of(client, f"client {i}") for i, client in enumerate(clients)]
        try:
            fields = tuple(torch.cat(column) for column in zip(*each, strict=True))
        except (RuntimeError, ValueError) as error:
            raise InputError(f"the clients' arrays do not fit together: {error}") from None
        # the clients lie one after the other in the joined arrays
        sizes = [len(inputs) for inputs, *_ in each]
        return Federation(fields, Parts.consecutive(sizes))


def fields_of(
    data: Any,
    what: str,
) -> tuple[Tensor, ...]:
    """Arrays `(inputs, ..., targets)` from a tuple or a Dataset; `what` names it in errors."""
    if isinstance(data, TensorDataset):
        data = data.tensors
    elif isinstance(data, Dataset):
        data = _stacked(data, what)
    # the list may be anything: a path, a generator, a single array
    if not isinstance(data, tuple | list) or len(data) < 2:
        kind = type(data).__name__
        raise InputError(
            f"{what} is a {kind}: give a pair of arrays (inputs, targets) or a Dataset"
        )
    fields = tuple(as_array(field, f"{what}, {name}") for field, name in _named(data))
    lengths = [_length(field) for field in fields]
    if len(set(lengths)) > 1 or lengths[0] < 0:
        raise InputError(f"{what}: inputs and targets differ in length ({lengths})")
    if lengths[0] == 0:
        raise InputError(f"{what} has no samples: leave it out")
    return fields


def _named(data: Sequence[Any]) -> list[tuple[Any, str]]:
    """The fields with what each is called in errors."""
    names = ["inputs"] * (len(data) - 1) + ["targets"]
    return list(zip(data, names, strict=True))


def _length(field: Tensor) -> int:
    """The number of samples; -1 for a single number, which has none."""
    if field.dim() == 0:
        return -1
    return len(field)


def _stacked(
    dataset: Any,
    what: str,
) -> tuple[Tensor, ...]:
    samples = _samples(dataset, what)
    if not samples:
        raise InputError(f"{what} has no samples: leave it out")
    columns = []
    try:
        for values in zip(*samples, strict=True):
            column = torch.stack([torch.as_tensor(value) for value in values])
            columns.append(column)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{what}: the samples of its Dataset do not fit together ({error})"
        ) from None
    return tuple(columns)


def _samples(
    dataset: Any,
    what: str,
) -> list[Any]:
    """All samples, by number and not by iteration.

    A Dataset promises __getitem__, and its end need not raise.
    """
    try:
        count = len(dataset)
    except TypeError as error:
        raise InputError(
            f"{what}: its Dataset has no length ({error}); give one that has"
        ) from None
    samples = []
    for number in range(count):
        try:
            samples.append(dataset[number])
        except Exception as error:
            # any error of the user's code; theirs stays in sight as the cause of this one
            raise InputError(
                f"{what}: sample {number} of its Dataset cannot be read "
                f"({type(error).__name__}: {error})"
            ) from error
    return samples
