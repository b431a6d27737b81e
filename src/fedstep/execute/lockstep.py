"""The batches of several clients side by side, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.data.plan import BatchWalk


@dataclass(frozen=True)
class Lockstep:
    """What a block walks through in a round: clients on the first axis, steps on the second.

    Batches of unequal size are padded with copies of their first sample; a client with fewer steps
    than the others has batches of size 0 at the end.
    """

    positions: Tensor  # (C, K, B) among the client's own samples
    sizes: Tensor  # (C, K) of the batches without their padding
    lengths: tuple[int, ...]  # steps of each client
    largest: tuple[int, ...]  # batch of each step
    smallest: tuple[int, ...]  # batch of each step, of the clients that are still at work

    @staticmethod
    def of(walks: Sequence[BatchWalk]) -> Lockstep:
        """From each client's batches, as positions among its samples."""
        lengths = tuple([len(walk.sizes) for walk in walks])
        rows_of = _by_form(walks)
        # of the forms, not of the clients: a thousand clients have a few
        steps = max(map(len, rows_of), default=0)
        width = max(map(max, rows_of), default=0)
        sizes = torch.zeros(len(walks), steps, dtype=torch.int64)
        positions = torch.zeros(len(walks), steps, width, dtype=torch.int64)
        for form, rows in rows_of.items():
            at = torch.tensor(rows)
            end_to_end = torch.stack([walks[row].positions for row in rows])
            sizes[at, : len(form)] = torch.tensor(form)
            positions[at, : len(form)] = end_to_end[:, _places(form, width)]
        largest, smallest = _extremes(sizes)
        return Lockstep(positions, sizes, lengths, largest, smallest)

    def part(self, rows: slice) -> Lockstep:
        """Some neighbouring clients, as they walk without the others."""
        lengths = self.lengths[rows]
        sizes = self.sizes[rows, : max(lengths, default=0)]
        largest, smallest = _extremes(sizes)
        width = max(largest, default=0)
        positions = self.positions[rows, : len(largest), :width]
        return Lockstep(positions, sizes, lengths, largest, smallest)

    @property
    def uniform(self) -> bool:
        """Whether all clients have batches of the same sizes."""
        return self.largest == self.smallest and len(set(self.lengths)) <= 1

    def at_work(self, step: int) -> Tensor | None:
        """The rows of the clients that have a batch in this step; None: all of them."""
        # None and not all rows: most steps are like that, and copies of the state are saved
        if step < min(self.lengths):
            return None
        rows = [row for row, length in enumerate(self.lengths) if step < length]
        return torch.tensor(rows)

    def mask(self, step: int, rows: Tensor) -> Tensor | None:
        """Which samples are real; None: all of them."""
        width = self.largest[step]
        if self.smallest[step] == width:
            # without a mask a model may take its plain loss, which is faster
            return None
        return torch.arange(width) < self.sizes[rows, step, None]


def _by_form(walks: Sequence[BatchWalk]) -> dict[tuple[int, ...], list[int]]:
    """The rows of the clients, by the sizes of their batches; those without any are left out."""
    rows: dict[tuple[int, ...], list[int]] = {}
    for row, walk in enumerate(walks):
        if walk.sizes:
            rows.setdefault(walk.sizes, []).append(row)
    return rows


def _places(form: tuple[int, ...], width: int) -> Tensor:
    """Where each batch lies end to end, one a row; short ones are padded with their first sample."""
    sizes = torch.tensor(form)
    column = torch.arange(width)
    first = (sizes.cumsum(0) - sizes).unsqueeze(-1)
    real = column < sizes.unsqueeze(-1)
    # a copy of a real sample: zeros could make a loss or a layer infinite before the mask is
    # applied
    return torch.where(real, first + column, first)


def _extremes(sizes: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The largest and the smallest batch of each step, among the clients that are still at work."""
    if sizes.shape[1] == 0:
        return (), ()
    largest = sizes.amax(0)
    # a size of 0 is a client that is done: it must not count as the smallest
    at_work = torch.where(sizes > 0, sizes, sizes.max())
    smallest = at_work.amin(0)
    return tuple(largest.tolist()), tuple(smallest.tolist())
