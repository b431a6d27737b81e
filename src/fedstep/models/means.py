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
