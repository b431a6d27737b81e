"""The batches of several clients side by side, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


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
    def of(plans: Sequence[Sequence[Tensor]]) -> Lockstep:
        """From each client's batches, as positions among its samples."""
        sizes = pad_sequence([_sizes(plan) for plan in plans], batch_first=True)
        largest, smallest = _extremes(sizes)
        width = max(largest, default=0)
        tables = [_table(plan, width) for plan in plans]
        return Lockstep(
            positions=pad_sequence(tables, batch_first=True),
            sizes=sizes,
            lengths=tuple(len(plan) for plan in plans),
            largest=largest,
            smallest=smallest,
        )

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


def _sizes(plan: Sequence[Tensor]) -> Tensor:
    return torch.tensor([index.numel() for index in plan], dtype=torch.int64)


def _table(plan: Sequence[Tensor], width: int) -> Tensor:
    """A client's batches, one a row; short ones are padded with their first sample."""
    if not plan:
        return torch.zeros(0, width, dtype=torch.int64)
    sizes = _sizes(plan)
    column = torch.arange(width)
    # where each batch begins once all are laid end to end
    first = (sizes.cumsum(0) - sizes).unsqueeze(-1)
    real = column < sizes.unsqueeze(-1)
    # a copy of a real sample: zeros could make a loss or a layer infinite before the mask is
    # applied
    inside = torch.where(real, first + column, first)
    return torch.cat(list(plan))[inside]


def _extremes(sizes: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The largest and the smallest batch of each step, among the clients that are still at work."""
    if sizes.shape[1] == 0:
        return (), ()
    largest = sizes.amax(0)
    # a size of 0 is a client that is done: it must not count as the smallest
    at_work = torch.where(sizes > 0, sizes, sizes.max())
    smallest = at_work.amin(0)
    return tuple(largest.tolist()), tuple(smallest.tolist())
