"""All batches of a round as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedstep.core.types import Batch


@dataclass(frozen=True)
class JoinedBatch(Batch):
    """One batch of all samples of several; the seed is that of the first."""

    count: Tensor = field(kw_only=True)  # (...) number of batches that were joined


def join_batches(batches: Sequence[tuple[Batch, Tensor | None]], clients: int) -> JoinedBatch:
    """All samples of (batch, live rows) pairs; a client that has fewer batches than its block is padded."""
    first = batches[0][0]
    if first.share.dim() == 0:
        parts = [batch for batch, _ in batches]
        fields = tuple(torch.cat(column) for column in zip(*(b.fields for b in parts), strict=True))
        return JoinedBatch(
            fields,
            torch.stack([b.share for b in parts]).sum(0),
            first.seed,
            count=torch.tensor(len(parts)),
        )
    count = torch.zeros(clients, dtype=torch.int64)
    share, seed = first.share.new_zeros(clients), first.seed.new_zeros(clients)
    columns, masks = list[tuple[Tensor, ...]](), list[Tensor]()
    for batch, some in batches:
        rows = torch.arange(clients) if some is None else some
        real = (
            torch.ones(batch.inputs.shape[:2], dtype=torch.bool)
            if batch.mask is None
            else batch.mask.cpu()
        )
        seed = torch.where(count > 0, seed, seed.index_copy(0, rows, batch.seed))
        count = count.index_add(0, rows, torch.ones_like(rows))
        share = share.index_add(0, rows, batch.share)
        # who has no such batch is padded with a real sample of its own: zeros could have a gradient that is not finite
        fill = (
            columns[0]
            if columns
            else tuple(f.new_zeros(clients, 1, *f.shape[2:]) for f in batch.fields)
        )
        wide = (f[:, :1].expand(-1, real.shape[1], *f.shape[2:]) for f in fill)
        columns.append(
            tuple(w.index_copy(0, rows, f) for w, f in zip(wide, batch.fields, strict=True))
        )
        masks.append(
            torch.zeros(clients, real.shape[1], dtype=torch.bool).index_copy(0, rows, real)
        )
    mask, count = torch.cat(masks, 1), count.to(first.share.device)
    whole = tuple(torch.cat(column, 1) for column in zip(*columns, strict=True))
    return JoinedBatch(
        whole, share, seed, None if bool(mask.all()) else mask.to(first.inputs.device), count=count
    )
