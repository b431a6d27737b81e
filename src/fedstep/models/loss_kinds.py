"""What the losses of torch compare: classes, labels of 0 and 1, or numbers."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedstep.models.losses import NAMED, bce, mse


class LossKind(Enum):
    """What a loss takes for targets."""

    CLASSES = "numbers of classes"
    LOGITS = "0 or 1, against logits"
    PROBABILITIES = "0 or 1, against probabilities"
    NUMBERS = "numbers"

    @property
    def is_binary(self) -> bool:
        return self in (LossKind.LOGITS, LossKind.PROBABILITIES)


FUNCTIONS: dict[Any, LossKind] = {
    functional.cross_entropy: LossKind.CLASSES,
    functional.nll_loss: LossKind.CLASSES,
    functional.binary_cross_entropy_with_logits: LossKind.LOGITS,
    bce: LossKind.LOGITS,
    functional.binary_cross_entropy: LossKind.PROBABILITIES,
    functional.mse_loss: LossKind.NUMBERS,
    mse: LossKind.NUMBERS,
    functional.l1_loss: LossKind.NUMBERS,
    functional.smooth_l1_loss: LossKind.NUMBERS,
    functional.huber_loss: LossKind.NUMBERS,
}
MODULES: dict[type, LossKind] = {
    nn.CrossEntropyLoss: LossKind.CLASSES,
    nn.NLLLoss: LossKind.CLASSES,
    nn.BCEWithLogitsLoss: LossKind.LOGITS,
    nn.BCELoss: LossKind.PROBABILITIES,
    nn.MSELoss: LossKind.NUMBERS,
    nn.L1Loss: LossKind.NUMBERS,
    nn.SmoothL1Loss: LossKind.NUMBERS,
    nn.HuberLoss: LossKind.NUMBERS,
}


def kind_of(loss: Any) -> LossKind | None:
    """What a loss compares; None: a function of the user's, of which that is not known."""
    if isinstance(loss, partial):
        loss = loss.func
    # exactly these: a subclass may do something else
    if isinstance(loss, nn.Module):
        return MODULES.get(type(loss))
    return FUNCTIONS.get(loss)


def loss_name(loss: Any) -> str:
    """What a loss is called in a message."""
    if isinstance(loss, partial):
        loss = loss.func
    for name, function in NAMED.items():
        if loss is function:
            return name
    return str(getattr(loss, "__name__", type(loss).__name__))


def binary_scores(
    kind: LossKind,
    predictions: Tensor,
    targets: Tensor,
) -> tuple[Tensor, Tensor] | None:
    """Scores of the classes 0 and 1 on axis 1, and labels; None where targets are something else.

    The one output of a binary model has no highest score: compared as classes it would always be
    right on class 0.
    """
    if predictions.numel() != targets.numel():
        return None
    if not bool(((targets == 0) | (targets == 1)).all()):
        return None
    labels = targets.long()
    if labels.dim() == 2 and labels.shape[1] == 1:
        labels = labels.squeeze(1)
    logits = predictions.detach().reshape(labels.shape)
    if kind is LossKind.PROBABILITIES:
        logits = torch.logit(logits, eps=torch.finfo(logits.dtype).tiny)
    # the softmax of (0, z) is (1 - p, p) for p the sigmoid of z
    return torch.stack([torch.zeros_like(logits), logits], dim=1), labels
