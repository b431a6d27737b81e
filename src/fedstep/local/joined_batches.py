"""All batches of a round as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedstep.core.types import Batch, LiveBatch


@dataclass(frozen=True)
class JoinedBatch(Batch):
    """One batch of all samples of several; the seed is that of the first."""

    count: Tensor = field(kw_only=True)  # (...) number of batches that were joined


def join_batches(batches: Sequence[LiveBatch], clients: int) -> JoinedBatch:
    """All samples of the batches; a client that has fewer batches than its block is padded."""
    if batches[0][0].share.dim() == 0:
        return _of_one_client([batch for batch, _ in batches])
    return _of_a_block(batches, clients)


def _of_one_client(batches: Sequence[Batch]) -> JoinedBatch:
    by_field = zip(*(batch.fields for batch in batches), strict=True)
    shares = torch.stack([batch.share for batch in batches])
    return JoinedBatch(
        fields=tuple(torch.cat(pieces) for pieces in by_field),
        share=shares.sum(0),
        seed=batches[0].seed,
        count=torch.tensor(len(batches), device=batches[0].share.device),
    )


def _of_a_block(batches: Sequence[LiveBatch], clients: int) -> JoinedBatch:
    first = batches[0][0]
    count = torch.zeros(clients, dtype=torch.int64)
    share = first.share.new_zeros(clients)
    seed = first.seed.new_zeros(clients)
    padding = tuple(f.new_zeros(clients, 1, *f.shape[2:]) for f in first.fields)
    pieces: list[tuple[Tensor, ...]] = []
    masks = []
    for batch, some in batches:
        rows = some
        if rows is None:
            rows = torch.arange(clients, device=first.share.device)
        # seeds, numbers and masks are put together on the CPU, where they are looked at
        here = rows.to(seed.device)
        # the seed of a client's first batch: what is random in a pass is drawn once for all
        seed = torch.where(count > 0, seed, seed.index_copy(0, here, batch.seed))
        count = count.index_add(0, here, torch.ones_like(here))
        share = share.index_add(0, rows, batch.share)
        # who has no such batch is padded with a real sample of its own: zeros could have a
        # gradient that is not finite
        fill = padding
        if pieces:
            fill = pieces[0]
        pieces.append(_padded(batch.fields, rows, fill))
        masks.append(_mask(batch, here, clients))

    real = torch.cat(masks, 1)
    mask = None
    # without padding the model need not mask its mean, and rounds as one client alone does
    if not bool(real.all()):
        mask = real.to(first.inputs.device)
    by_field = zip(*pieces, strict=True)
    return JoinedBatch(
        fields=tuple(torch.cat(column, 1) for column in by_field),
        share=share,
        seed=seed,
        mask=mask,
        count=count.to(first.share.device),
    )


def _padded(
    values: tuple[Tensor, ...],
    rows: Tensor,
    fill: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """The fields of some rows as fields of the whole block; the others repeat their first fill."""
    whole = []
    for value, filler in zip(values, fill, strict=True):
        width = value.shape[1]
        wide = filler[:, :1].expand(-1, width, *filler.shape[2:])
        whole.append(wide.index_copy(0, rows, value))
    return tuple(whole)


def _mask(batch: Batch, rows: Tensor, clients: int) -> Tensor:
    """Which samples of the block are real."""
    if batch.mask is None:
        real = torch.ones(batch.inputs.shape[:2], dtype=torch.bool)
    else:
        real = batch.mask.cpu()
    nobody = torch.zeros(clients, real.shape[1], dtype=torch.bool)
    return nobody.index_copy(0, rows, real)
