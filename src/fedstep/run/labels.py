"""Labels that a model has no output for, found before the first round."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedstep.core.errors import InputError
from fedstep.execute.task import Task
from fedstep.models.flat import FlatModel
from fedstep.run.evaluate import number_of_outputs

IGNORED = -100  # torch's own label for a target that does not count


def check_labels(task: Task, scored: dict[str, tuple[Tensor, ...] | None]) -> None:
    """Refuse a label outside 0..C-1 where the loss is cross-entropy of C classes.

    torch would say so in the middle of a round, and not whose label it is. `scored` are the
    samples that are only evaluated, by name.
    """
    federation = task.federation
    targets = federation.fields[-1]
    # what a transform does to targets is not known, nor what a lazy federation will read
    takes_classes = is_cross_entropy(task.model) and federation.transform is None
    if not takes_classes or not _are_classes(targets):
        return
    classes = number_of_outputs(task.model, federation.fields)
    if classes is None:
        return
    ignored = _ignored_label(task.model)
    samples = federation.parts.samples
    wrong = _first_wrong(targets[samples], classes, ignored)
    if wrong is not None:
        row = int(torch.searchsorted(federation.parts.offsets, wrong, right=True)) - 1
        client = federation.parts.number(row)
        raise InputError(_message(f"client {client}", targets[samples[wrong]], classes))
    for name, fields in scored.items():
        if fields is None or not _are_classes(fields[-1]):
            continue
        wrong = _first_wrong(fields[-1], classes, ignored)
        if wrong is not None:
            raise InputError(_message(f"{name}, sample {wrong}", fields[-1][wrong], classes))


def _are_classes(targets: Tensor) -> bool:
    # one label a sample: of texts and pictures the loss itself finds out
    return targets.dim() == 1 and not targets.is_floating_point()


def is_cross_entropy(model: FlatModel) -> bool:
    """Whether targets are numbers of outputs."""
    loss = getattr(model, "loss", None)
    if isinstance(loss, partial):
        loss = loss.func
    return loss is functional.cross_entropy or isinstance(loss, nn.CrossEntropyLoss)


def _ignored_label(model: FlatModel) -> int:
    loss: Any = getattr(model, "loss", None)
    if isinstance(loss, partial):
        return int(loss.keywords.get("ignore_index", IGNORED))
    return int(getattr(loss, "ignore_index", IGNORED))


def _first_wrong(targets: Tensor, classes: int, ignored: int) -> int | None:
    """The first sample with a label that cannot be."""
    outside = (targets < 0) | (targets >= classes)
    wrong = outside & (targets != ignored)
    if not bool(wrong.any()):
        return None
    return int(wrong.nonzero()[0])


def _message(whose: str, label: Tensor, classes: int) -> str:
    return (
        f"{whose}: label {int(label)} is outside 0..{classes - 1}: "
        f"number the classes from 0, or give the model more than its {classes} outputs"
    )
