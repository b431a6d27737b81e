"""Mean losses of samples, some of which are padding."""

from __future__ import annotations

import torch
from torch import Tensor


class NeedsRows(Exception):
    """The loss is already a mean over samples, so padded samples cannot be left out of it."""


def sample_losses(losses: Tensor) -> Tensor:
    """One number a sample: the mean over whatever else a loss has (tokens, pixels)."""
    if losses.dim() > 1:
        return losses.flatten(1).mean(1)
    return losses


def mean_loss(losses: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over the real samples; losses may be a mean already where there is no padding."""
    if losses.dim() == 0:
        # the padded samples are in the mean, and nothing can take them out again
        if mask is not None:
            raise NeedsRows
        return losses
    each = sample_losses(losses)
    if mask is None:
        return each.mean()
    return masked_mean(each, mask)


def masked_mean(losses: Tensor, mask: Tensor) -> Tensor:
    """Mean over the samples that are real, on the last axis."""
    # zeros put in place, not a product with the mask: NaN of a padded sample times 0 is NaN
    real = torch.where(mask, losses, torch.zeros_like(losses))
    return real.sum(-1) / mask.sum(-1)


def counted_sums(losses: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """For every sample the sum over its targets that count, and how many they are."""
    real = torch.where(counted, losses, torch.zeros_like(losses))
    if losses.dim() > 1:
        return real.flatten(1).sum(1), counted.flatten(1).sum(1)
    return real, counted.to(losses.dtype)


def counted_mean(losses: Tensor, counted: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over the targets that count, of real samples; 0 where none does.

    As torch takes the mean of a loss with an ignored target: over all targets of the batch.
    """
    sums, counts = counted_sums(losses, counted)
    if mask is not None:
        sums = torch.where(mask, sums, torch.zeros_like(sums))
        counts = torch.where(mask, counts, torch.zeros_like(counts))
    return sums.sum() / counts.sum().clamp(min=1)
