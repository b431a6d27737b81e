"""Loss and accuracy of a model on held-out samples."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import torch
from torch import Tensor

from fedstep.core.types import Batch
from fedstep.core.vec import Vec
from fedstep.models.flat import FlatModel


@dataclass(frozen=True)
class Score:
    """Means over the samples; accuracy is NaN where the task is not classification."""

    loss: float
    accuracy: float = nan


def evaluate(model: FlatModel, x: Vec, fields: tuple[Tensor, ...], chunk: int = 2000) -> Score:
    """Score x on the samples; `model` should be in its evaluating form. Chunks bound the memory."""
    n, loss, correct = len(fields[-1]), 0.0, 0.0
    with torch.no_grad():
        for first in range(0, n, chunk):
            part = tuple(f[first : first + chunk].to(x.device) for f in fields)
            out = model(x, Batch(part, x.new_tensor(1.0), torch.tensor(0)))
            loss += float(out.loss) * len(part[-1])
            correct += float(_hits(out.predictions, part[-1]))
    return Score(loss / n, correct / n)


def _hits(predictions: Tensor | None, targets: Tensor) -> Tensor:
    classes = predictions is not None and not targets.is_floating_point() and predictions.dim() == targets.dim() + 1
    if predictions is None or not classes:
        return torch.tensor(nan)
    return (predictions.argmax(-1) == targets).sum()
