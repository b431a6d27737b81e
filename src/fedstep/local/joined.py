"""All batches of a round as one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedstep.core.types import Batch


def joined(batches: Sequence[tuple[Batch, Tensor | None]], clients: int) -> tuple[Batch, Tensor]:
    """One batch of all samples of (batch, live rows) pairs, and how many batches each client had.

    A client that has fewer batches than its block is padded. The seed is that of the first batch: what is random in the forward
    pass is drawn once for all samples.
    """
    first = batches[0][0]
    if first.share.dim() == 0:
        count = torch.tensor(len(batches))
        if len(batches) == 1:
            return first, count
        parts = [batch for batch, _ in batches]
        share = torch.stack([b.share for b in parts]).sum(0)
        fields = tuple(torch.cat(column) for column in zip(*(b.fields for b in parts), strict=True))
        return Batch(fields, share, first.seed), count
    count = torch.zeros(clients, dtype=torch.int64)
    share, seed = first.share.new_zeros(clients), first.seed.new_zeros(clients)
    columns, masks = list[tuple[Tensor, ...]](), list[Tensor]()
    for batch, rows in batches:
        rows = torch.arange(clients) if rows is None else rows
        real = batch.mask if batch.mask is not None else torch.ones(batch.inputs.shape[:2], dtype=torch.bool)
        seed = torch.where(count > 0, seed, seed.index_copy(0, rows, batch.seed))
        count = count.index_add(0, rows, torch.ones_like(rows))
        share = share.index_add(0, rows, batch.share)
        # who has no such batch is padded with a real sample of its own: zeros could have a gradient that is not finite
        fill = (
            [f[:, :1] for f in columns[0]] if columns else [f.new_zeros(clients, 1, *f.shape[2:]) for f in batch.fields]
        )
        wide = [f.expand(-1, real.shape[1], *f.shape[2:]) for f in fill]
        columns.append(tuple(w.index_copy(0, rows, f) for w, f in zip(wide, batch.fields, strict=True)))
        masks.append(torch.zeros(clients, real.shape[1], dtype=torch.bool).index_copy(0, rows, real.cpu()))
    mask = torch.cat(masks, 1)
    whole = tuple(torch.cat(column, 1) for column in zip(*columns, strict=True))
    return Batch(whole, share, seed, None if bool(mask.all()) else mask.to(first.inputs.device)), count
