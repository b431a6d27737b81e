"""Samples as people bring them: arrays, dicts, Datasets, loaders, lists, Hugging Face's tables.

What is small and never random is read into memory, all else a batch at a time; a note says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, TensorDataset
from torch.utils.data import default_collate as torch_collate

from fedstep.core.errors import InputError
from fedstep.data.arrays import as_array
from fedstep.data.columns import Columns, choose_columns
from fedstep.data.federation import Federation, fields_of
from fedstep.data.lazy import (
    Collate,
    ReadSamples,
    batch_fields,
    bytes_of,
    draws_random_numbers,
    keyed,
    same_sample,
    stacked,
)
from fedstep.data.named_samples import NamedSamples
from fedstep.data.parts import Parts

MEMORY = 2**30  # bytes of samples that are read into memory, where nothing is random
FEW = 2  # samples that show what a batch looks like


@dataclass(frozen=True)
class NamedArrays:
    """Columns of arrays as samples that are dicts."""

    columns: Mapping[str, Tensor]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        return {name: column[number] for name, column in self.columns.items()}


@dataclass(frozen=True)
class Brought:
    """One client's samples, or those of a test: arrays as they lie there, or a way to read them."""

    what: str  # in messages: client 3
    arrays: tuple[Tensor, ...] | None = None
    named: Mapping[str, Tensor] | None = None
    samples: Any = None  # has a length and an n-th sample
    collate: Collate | None = None  # a loader's own

    @staticmethod
    def of(data: Any, what: str) -> Brought:
        if isinstance(data, DataLoader):
            return _of_loader(data, what)
        if _is_stream(data):
            raise InputError(
                f"{what} is an IterableDataset, which has no n-th sample: "
                "give a Dataset with __getitem__, or a list of its samples"
            )
        if isinstance(data, TensorDataset):
            return Brought(what, arrays=fields_of(data, what))
        if isinstance(data, Mapping):
            return Brought(what, named=_named_arrays(data, what))
        if isinstance(data, tuple) or _is_pair_of_arrays(data):
            return Brought(what, arrays=fields_of(data, what))
        if isinstance(data, Tensor) or not can_be_read(data):
            fields_of(data, what)  # refuses it in plain words
        if len(data) == 0:
            raise InputError(f"{what} has no samples: leave it out")
        return Brought(what, samples=data)

    @property
    def as_samples(self) -> Any:
        """The samples by number."""
        if self.arrays is not None:
            return TensorDataset(*self.arrays)
        if self.named is not None:
            return NamedArrays(self.named)
        return self.samples

    def sample(self, number: int) -> Any:
        """One sample; whoever cannot be read is named."""
        return NamedSamples(self.what, self.as_samples)[number]

    def first(self, count: int = 1) -> list[Any]:
        """The first samples, once more from the beginning where there are fewer."""
        # keyed: to look at a sample must not change what the caller draws
        size = len(self.as_samples)
        with keyed(0):
            return [self.sample(number % size) for number in range(count)]


class RandomSamples(Exception):
    """Samples were to be read once, and reading them draws random numbers."""


@dataclass(frozen=True)
class Reading:
    """How all that was brought is read: columns, collate, lazily or not."""

    columns: Columns | None  # None: samples are tuples
    collate: Collate | None
    lazy: bool
    notes: tuple[str, ...]


def pooled(sets: Sequence[Brought], reading: Reading) -> ReadSamples:
    """All samples behind one another, read by number."""
    names = None
    if reading.columns is not None:
        names = reading.columns.names
    pool: Any = ConcatDataset([NamedSamples(one.what, one.as_samples) for one in sets])
    return ReadSamples(pool, names, reading.collate)


def way_of_reading(
    sets: Sequence[Brought],
    collate: Collate | None,
    accepted: Sequence[str] | None,
) -> Reading:
    """Columns by the first sample; in memory what is small and, so far, not random."""
    collate = collate or next((one.collate for one in sets if one.collate is not None), None)
    notes = []
    # by the first: that all others have the same is found out when they are read
    columns = _columns(sets[0], collate, accepted)
    if columns is not None and columns.left_out:
        notes.append(f"columns left out: {', '.join(columns.left_out)}")
    if collate is not None:
        notes.append("samples are read a batch at a time, because of collate")
        return Reading(columns, collate, True, tuple(notes))
    read = [one for one in sets if one.samples is not None]
    if not read:
        return Reading(columns, None, False, tuple(notes))
    # by one sample: to look at all of them would be to read them
    size = sum(len(one.samples) for one in read) * bytes_of(read[0].first()[0])
    if size > MEMORY:
        notes.append(f"samples are read a batch at a time: about {size / 2**30:.1f} GiB in all")
        return Reading(columns, None, True, tuple(notes))
    notes.append(f"samples lie in memory ({size / 2**20:.1f} MiB)")
    return Reading(columns, None, False, tuple(notes))


def lazily(reading: Reading, why: str) -> Reading:
    """The same, a batch at a time: an augmentation that is read once would be frozen."""
    # what was said about memory is no longer true
    notes = [note for note in reading.notes if not note.startswith("samples ")]
    notes.append(f"samples are read a batch at a time: {why}")
    return replace(reading, lazy=True, notes=tuple(notes))


def has_its_own_generator(brought: Brought) -> bool:
    """Whether a sample is another one when it is read again, with all that can be keyed the same."""
    if brought.samples is None:
        return False
    return not same_sample(brought.first(), brought.first())


def read_into_memory(brought: Brought, reading: Reading) -> tuple[Tensor, ...]:
    """All fields of a set."""
    if brought.arrays is not None:
        return brought.arrays
    names = None
    if reading.columns is not None:
        names = reading.columns.names
    if brought.named is not None:
        return batch_fields(
            brought.named,
            names,
            len(NamedArrays(brought.named)),
        )
    count = len(brought.samples)
    # filled by `read`, which is watched for random numbers
    samples: list[Any] = []

    def read() -> None:
        samples.extend(brought.sample(number) for number in range(count))

    with keyed(0):
        if draws_random_numbers(read):
            raise RandomSamples
    try:
        return batch_fields(stacked(samples), names, count)
    except InputError as error:
        raise InputError(f"{brought.what}: {error}") from None


def joined(each: Sequence[tuple[Tensor, ...]], names: tuple[str, ...] | None) -> Federation:
    """Clients whose fields are in memory."""
    try:
        fields = tuple(torch.cat(column) for column in zip(*each, strict=True))
    except (RuntimeError, ValueError) as error:
        raise InputError(f"the clients' arrays do not fit together: {error}") from None
    sizes = [len(fields[0]) for fields in each]
    return Federation(fields, Parts.consecutive(sizes), names=names)


def _of_loader(loader: DataLoader[Any], what: str) -> Brought:
    inner = Brought.of(loader.dataset, what)
    collate: Any = loader.collate_fn
    # torch's own stacks, as is done here; another one is what the user wants
    if collate is None or collate is torch_collate:
        return inner
    return replace(inner, collate=collate)


def _is_stream(data: Any) -> bool:
    # that of `datasets` has the same name, and is torch's only once it has been gone through
    kind = type(data)
    return isinstance(data, IterableDataset) or kind.__name__ == IterableDataset.__name__


def _named_arrays(data: Mapping[str, Any], what: str) -> dict[str, Tensor]:
    columns = {}
    for name, values in data.items():
        columns[str(name)] = as_array(values, f"{what}, column {name!r}")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise InputError(f"{what}: columns differ in length: {lengths}")
    return columns


def _is_pair_of_arrays(data: Any) -> bool:
    """Whether a list is [inputs, targets] and not a list of samples."""
    if not isinstance(data, list) or not data:
        return False
    return not isinstance(data[0], tuple | Mapping)


def can_be_read(data: Any) -> bool:
    """Whether something has a length and an n-th sample."""
    return hasattr(data, "__getitem__") and hasattr(data, "__len__")


def _columns(
    brought: Brought,
    collate: Collate | None,
    accepted: Sequence[str] | None,
) -> Columns | None:
    if brought.arrays is not None and collate is None:
        return None
    if brought.named is not None and collate is None:
        return choose_columns(brought.named, accepted, brought.what)
    # two: a collate may need more than one to see lengths differ
    few = brought.first(FEW)
    batch: Any = few[0]
    if collate is not None:
        with keyed(0):
            batch = collate(few)
    if not hasattr(batch, "keys"):
        return None
    return choose_columns(batch, accepted, brought.what)
