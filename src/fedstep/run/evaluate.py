"""Loss and accuracy of a model on held-out samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import torch
from torch import Tensor

from fedstep.core.types import Batch
from fedstep.core.vec import Vec
from fedstep.data.federation import Federation, Transform
from fedstep.models.flat import FlatModel, seeded


@dataclass(frozen=True)
class Score:
    """Means over the samples; accuracy is NaN where the task is not classification."""

    loss: float = nan
    accuracy: float = nan


def evaluate(
    model: FlatModel,
    x: Vec,
    fields: tuple[Tensor, ...],
    transform: Transform | None = None,
    chunk: int = 2000,
) -> Score:
    """Score x on the samples; `model` should be in its evaluating form. Chunks bound the memory."""
    losses, hits = sample_losses(model, x, fields, transform, chunk)
    return Score(float(losses.mean()), float(hits.mean()))


def loss_over_clients(model: FlatModel, x: Vec, federation: Federation) -> float:
    """The mean over all clients of their mean loss, every client counting the same."""
    losses, _ = sample_losses(model, x, federation.fields, federation.transform)
    return float(torch.stack([losses[part].mean() for part in federation.parts]).mean())


def sample_losses(
    model: FlatModel,
    x: Vec,
    fields: tuple[Tensor, ...],
    transform: Transform | None = None,
    chunk: int = 2000,
) -> tuple[Tensor, Tensor]:
    """Loss of every sample and whether it is classified rightly, in float64."""
    losses, hits = [], []
    with torch.no_grad():
        for first in range(0, len(fields[-1]), chunk):
            part: Sequence[Tensor] = tuple(f[first : first + chunk] for f in fields)
            part = part if transform is None else transform(tuple(part), None)
            part = tuple(f.to(x.device) for f in part)
            with seeded(0, x.device):
                loss, predictions = model.values(x, Batch(part, x.new_tensor(1.0), torch.tensor(0)))
            loss = loss.flatten(1).mean(1) if loss.dim() > 1 else loss
            losses.append(loss.double().expand(len(part[-1])).cpu())
            hits.append(_hits(predictions, part[-1]).double().cpu())
    return torch.cat(losses), torch.cat(hits)


def _hits(predictions: Tensor | None, targets: Tensor) -> Tensor:
    classes = (
        predictions is not None
        and not targets.is_floating_point()
        and predictions.dim() == targets.dim() + 1
    )
    if predictions is None or not classes:
        return torch.full((len(targets),), nan)
    hits = (
        predictions.argmax(1) == targets
    ).double()  # classes on axis 1, as cross_entropy has them
    return hits.flatten(1).mean(1) if hits.dim() > 1 else hits
