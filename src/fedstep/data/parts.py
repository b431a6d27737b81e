"""What a partition is and what is worth knowing about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedstep.core.errors import InputError

Index: TypeAlias = NDArray[np.int64]


class Parts(tuple[Index, ...]):
    """A tuple of int64 index arrays, one a client; `note` says in words what a caller might not expect of them."""

    note: str

    def __new__(cls, parts: Iterable[ArrayLike], note: str = "") -> Parts:
        new = super().__new__(cls, (np.asarray(part, np.int64) for part in parts))
        new.note = note
        return new


def partition_hash(parts: Sequence[ArrayLike]) -> str:
    """sha256 of the clients' sizes and indices in their order, each a little-endian int64 after the number of clients."""
    digest = sha256(np.int64(len(parts)).astype("<i8").tobytes())
    for part in parts:
        index = np.asarray(part)
        digest.update(np.int64(index.size).astype("<i8").tobytes() + index.astype("<i8").tobytes())
    return digest.hexdigest()


def label_counts(parts: Sequence[ArrayLike], labels: ArrayLike) -> Index:
    """How often each label 0..C-1 occurs at each client, `[clients, C]`."""
    column = np.asarray(labels)
    if column.dtype.kind not in "iu" or column.ndim != 1 or column.size == 0 or column.min() < 0:
        raise InputError(
            "label_counts: the labels must be whole numbers from 0, one for each sample"
        )
    width = int(column.max()) + 1
    return np.stack(
        [np.bincount(column[np.asarray(part, np.int64)], minlength=width) for part in parts]
    ).astype(np.int64)


def check_disjoint(parts: Sequence[ArrayLike], total: int) -> None:
    """Raise unless every index lies in 0..total-1 and no sample is dealt twice."""
    owner = np.full(total, -1, np.int64)
    for i, part in enumerate(parts):
        index = np.asarray(part, np.int64)
        outside = index[(index < 0) | (index >= total)]
        if outside.size:
            raise InputError(
                f"client {i} has sample {outside[0]}, but they are numbered 0..{total - 1}"
            )
        if np.unique(index).size != index.size:
            raise InputError(f"client {i} has a sample twice: partition again")
        if (owner[index] >= 0).any():
            sample = index[np.argmax(owner[index] >= 0)]
            raise InputError(
                f"sample {sample} belongs to clients {owner[sample]} and {i}: partition again"
            )
        owner[index] = i
