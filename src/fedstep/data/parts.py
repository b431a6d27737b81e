"""Which samples each client has, and what is worth knowing about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from operator import index as whole_number
from typing import Any, TypeAlias, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fedstep.core.errors import InputError

Index: TypeAlias = NDArray[np.int64]
HASHED = 2**14  # clients at a time


@dataclass(frozen=True, eq=False, repr=False)
class Parts(Sequence[Tensor]):
    """The sample numbers of every client: one tensor for all of them, cut at `offsets`.

        parts[i] = samples[offsets[i] : offsets[i + 1]]

    It behaves as a sequence of int64 tensors, one a client. A tuple of tensors would cost 650 bytes
    a client besides the numbers themselves. `note` says in words what a caller might not expect.
    Clients are numbered from 0 unless `numbers` says otherwise: see `only`.

    >>> parts = Parts.of([[4, 0], [2], [1, 3]])
    >>> len(parts), parts[2].tolist(), parts.sizes.tolist()
    (3, [1, 3], [2, 1, 2])
    """

    samples: Tensor  # int64, of all clients, one client after another
    offsets: Tensor  # int64, one more than there are clients
    note: str = ""
    numbers: Tensor | None = None  # ascending

    @staticmethod
    def of(
        parts: Iterable[ArrayLike | Tensor],
        note: str = "",
    ) -> Parts:
        """From one array of sample numbers a client."""
        # as it is: they cannot be changed, so there is nothing to copy for
        if isinstance(parts, Parts):
            return parts
        arrays = [np.asarray(part, np.int64) for part in parts]
        sizes = [array.size for array in arrays]
        # an empty array in front: there is nothing to join where there are no clients
        samples = np.concatenate([np.empty(0, np.int64), *arrays])
        return Parts(
            torch.from_numpy(samples),
            _offsets(sizes),
            note,
        )

    @staticmethod
    def consecutive(sizes: Sequence[int] | Tensor) -> Parts:
        """The first client has the first samples, the next those that follow, and so on."""
        offsets = _offsets(sizes)
        return Parts(torch.arange(int(offsets[-1])), offsets)

    @staticmethod
    def grouped(
        owners: Index,
        clients: int,
        note: str = "",
    ) -> Parts:
        """From the number of every sample's client; a client's samples stay in their order."""
        # stable: which sample comes first at a client is part of what a seed means
        order = np.argsort(owners, kind="stable").astype(np.int64)
        sizes = np.bincount(owners, minlength=clients)
        return Parts(
            torch.from_numpy(order),
            _offsets(sizes),
            note,
        )

    @property
    def sizes(self) -> Tensor:
        """How many samples each client has."""
        return self.offsets.diff()

    def only(self, clients: Iterable[int]) -> Parts:
        """Some of the clients, who keep their numbers: what one machine of many holds.

        >>> Parts.of([[4, 0], [2], [1, 3]]).only([2])[2].tolist()
        [1, 3]
        """
        # ascending, as `numbers` must be to be searched
        held = sorted(set(clients))
        chosen = Parts.of([self[client] for client in held], self.note)
        return replace(chosen, numbers=torch.tensor(held, dtype=torch.int64))

    def deal(self, *arrays: Any) -> list[tuple[Any, ...]]:
        """Each client's own rows of these arrays or tensors: the clients that `fit` takes.

        >>> Parts.of([[2, 0], [1]]).deal(np.array([5.0, 6.0, 7.0]))
        [(array([7., 5.]),), (array([6.]),)]
        """
        return [tuple(_rows(array, part) for array in arrays) for part in self]

    def number(self, row: int) -> int:
        """The number of the client in this place."""
        if self.numbers is None:
            return row
        return int(self.numbers[row])

    def size(self, client: int) -> int:
        """How many samples a client has."""
        row = self.row(client)
        first, end = self.offsets[row : row + 2].tolist()
        return int(end - first)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, client: int) -> Tensor: ...

    @overload
    def __getitem__(self, client: slice) -> Parts: ...

    def __getitem__(self, client: int | slice) -> Tensor | Parts:
        # a part of the clients, numbered anew from 0
        if isinstance(client, slice):
            return self._slice(client)
        row = self.row(client)
        first, end = self.offsets[row : row + 2].tolist()
        return self.samples[first:end]

    def __iter__(self) -> Iterator[Tensor]:
        # a list: to take single numbers out of a tensor costs more than the slice
        for first, end in pairwise(self.offsets.tolist()):
            yield self.samples[first:end]

    def __repr__(self) -> str:
        return f"Parts({len(self)} clients, {len(self.samples)} samples)"

    def __reduce__(self) -> tuple[Any, ...]:
        # Sizes and not offsets, in the shortest type that holds them: a million clients are a few
        # bytes each. A tensor that is a slice would be pickled with all that it was cut from.
        numbers = None
        if self.numbers is not None:
            numbers = _short(self.numbers)
        return _unpickled, (_short(self.samples), _short(self.sizes), self.note, numbers)

    def row(self, client: int) -> int:
        """The place of a client: it has samples[offsets[row] : offsets[row + 1]]."""
        if self.numbers is not None:
            return self._row_of_number(client)
        row = whole_number(client)
        if row < 0:
            row += len(self)
        # the loop over a sequence without __iter__ ends by this error; so do the tests of Sequence
        if not 0 <= row < len(self):
            raise IndexError(f"there is no client {client}: they are 0..{len(self) - 1}")
        return row

    def _row_of_number(self, client: int) -> int:
        assert self.numbers is not None
        row = int(torch.searchsorted(self.numbers, client))
        if row == len(self) or int(self.numbers[row]) != client:
            raise IndexError(f"client {client} is not among the {len(self)} that are held here")
        return row

    def _slice(self, chosen: slice) -> Parts:
        first, end, stride = chosen.indices(len(self))
        rows = range(first, end, stride)
        # the usual case shares the memory of the whole
        if stride == 1 and rows and self.numbers is None:
            offsets = self.offsets[first : end + 1]
            samples = self.samples[int(offsets[0]) : int(offsets[-1])]
            return Parts(
                samples,
                offsets - offsets[0],
                self.note,
            )
        each = list(self)
        return Parts.of([each[row] for row in rows], self.note)


def partition_hash(parts: Iterable[ArrayLike | Tensor]) -> str:
    """sha256 of the number of clients, then each one's size and samples, as little-endian int64."""
    dealt = Parts.of(parts)
    digest = sha256(np.int64(len(dealt)).astype("<i8").tobytes())
    # some clients at a time: a million of them would be copied three times over
    for first in range(0, len(dealt), HASHED):
        offsets = dealt.offsets[first : first + HASHED + 1].numpy()
        samples = dealt.samples[offsets[0] : offsets[-1]].numpy()
        # the sizes among the samples: two ways to cut the same series differ
        stream = np.insert(samples, offsets[:-1] - offsets[0], np.diff(offsets))
        digest.update(stream.astype("<i8").tobytes())
    return digest.hexdigest()


def label_counts(
    parts: Iterable[ArrayLike | Tensor],
    labels: ArrayLike,
) -> Index:
    """How often each label 0..C-1 occurs at each client, `[clients, C]`."""
    column = np.asarray(labels)
    whole = column.dtype.kind in "iu" and column.ndim == 1 and column.size > 0
    if not whole or column.min() < 0:
        raise InputError(
            "label_counts: the labels must be whole numbers from 0, one for each sample"
        )
    dealt = Parts.of(parts)
    # up to the largest label of all clients, so that the columns mean the same for each
    classes = int(column.max()) + 1
    # client and label as one number: one count serves all clients
    cells = _owners(dealt) * classes + column[dealt.samples.numpy()]
    counts = np.bincount(cells, minlength=len(dealt) * classes)
    return counts.reshape(len(dealt), classes).astype(np.int64)


def check_disjoint(
    parts: Iterable[ArrayLike | Tensor],
    total: int,
) -> None:
    """Raise unless every sample lies in 0..total-1 and none is dealt twice."""
    dealt = Parts.of(parts)
    samples = dealt.samples.numpy()
    owners = _owners(dealt)
    outside = np.flatnonzero((samples < 0) | (samples >= total))
    if outside.size:
        first = outside[0]
        raise InputError(
            f"client {owners[first]} has sample {samples[first]}, "
            f"but they are numbered 0..{total - 1}"
        )
    often = np.flatnonzero(np.bincount(samples, minlength=total) > 1)
    if not often.size:
        return
    # the first such sample is named: one is enough to find the mistake
    holders = owners[samples == often[0]]
    if holders[0] == holders[1]:
        raise InputError(f"client {holders[0]} has a sample twice: partition again")
    raise InputError(
        f"sample {often[0]} belongs to clients {holders[0]} and {holders[1]}: partition again"
    )


def _rows(
    array: Any,
    part: Tensor,
) -> Any:
    # numpy takes a tensor of one element for a number and would drop the axis
    if isinstance(array, Tensor):
        return array[part]
    return array[part.numpy()]


def _owners(parts: Parts) -> Index:
    """The client of every sample that is dealt."""
    return np.repeat(np.arange(len(parts)), parts.sizes.numpy())


def _offsets(sizes: Sequence[int] | Tensor | NDArray[Any]) -> Tensor:
    lengths = torch.as_tensor(sizes, dtype=torch.int64)
    offsets = torch.zeros(len(lengths) + 1, dtype=torch.int64)
    torch.cumsum(
        lengths,
        dim=0,
        out=offsets[1:],
    )
    return offsets


def _short(values: Tensor) -> NDArray[Any]:
    array = values.numpy()
    # a negative number has no unsigned type; there is none in a sound one
    if array.size == 0 or array.min() < 0:
        return np.array(array)
    return array.astype(np.min_scalar_type(int(array.max())))


def _unpickled(
    samples: NDArray[Any],
    sizes: NDArray[Any],
    note: str,
    numbers: NDArray[Any] | None,
) -> Parts:
    parts = Parts(
        torch.from_numpy(samples.astype(np.int64)),
        _offsets(_whole(sizes)),
        note,
    )
    if numbers is None:
        return parts
    return replace(parts, numbers=torch.from_numpy(_whole(numbers)))


def _whole(values: NDArray[Any]) -> Index:
    return values.astype(np.int64)
