"""Samples in the form that a model and its loss take, where they were brought in a similar one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedstep.core.errors import InputError


@dataclass(frozen=True)
class FieldForm:
    """What is done to the fields of every batch; the fields themselves where nothing is needed."""

    dtype: torch.dtype | None = None  # of all real numbers
    whole_inputs: torch.dtype | None = None  # what inputs that are whole numbers become
    columns: bool = False  # targets (N, 1) become (N,)
    one_hot: bool = False  # targets (N, classes) become numbers of classes
    classes: bool = False  # targets become whole numbers

    def __call__(self, fields: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        *inputs, targets = fields
        changed = [self._input(field) for field in inputs]
        return *changed, self._target(targets)

    def _input(self, field: Tensor) -> Tensor:
        if field.is_floating_point():
            return field.to(self.dtype or field.dtype)
        if field.is_complex():
            return field
        return field.to(self.whole_inputs or field.dtype)

    def _target(self, targets: Tensor) -> Tensor:
        # a test set may have another form than the clients: one with classes already stays as it is
        if self.one_hot and targets.dim() == 2:
            return targets.argmax(1)
        if self.columns and targets.dim() == 2:
            targets = targets.squeeze(1)
        if self.classes or self.one_hot:
            return targets.long()
        if targets.is_floating_point():
            return targets.to(self.dtype or targets.dtype)
        return targets


def class_form(form: FieldForm, targets: Tensor, scores: Tensor | None) -> FieldForm:
    """The form in which targets are numbers of classes; `scores` of some samples say how many.

    targets: all that are known.
    """
    if scores is not None and targets.dim() == 2 and targets.shape[1:] == scores.shape[1:]:
        return _one_hot_form(form, targets)
    column = targets.dim() == 2 and targets.shape[1] == 1
    if column and scores is not None and scores.dim() == 2:
        form = replace(form, columns=True)
    if targets.is_floating_point():
        if not bool((targets == targets.round()).all()):
            raise InputError(
                "targets are numbers with fractions and the loss is cross-entropy of classes: "
                "give loss='mse' (or 'bce' for 0 and 1), or whole numbers as targets"
            )
        return replace(form, classes=True)
    if targets.dtype in (torch.int64, torch.uint8):
        return form
    return replace(form, classes=True)


def form_note(form: FieldForm, fields: tuple[Tensor, ...]) -> str | None:
    """What is done to these fields, in a line; None: nothing."""
    *inputs, targets = fields
    words = []
    if form.whole_inputs is not None:
        before = {_name(field.dtype) for field in inputs if not field.is_floating_point()}
        words.append(
            f"inputs: {', '.join(sorted(before))} cast to {_name(form.whole_inputs)}, "
            "as the model takes them"
        )
    if form.one_hot:
        words.append("targets: one-hot rows read as numbers of classes")
    elif form.columns:
        words.append(f"targets: {tuple(targets.shape)} read as {tuple(targets.shape[:1])}")
    if form.classes and targets.dtype != torch.int64:
        words.append(f"targets: {_name(targets.dtype)} cast to int64, numbers of classes")
    if not words:
        return None
    return "; ".join(words)


def _one_hot_form(form: FieldForm, targets: Tensor) -> FieldForm:
    marks = bool(((targets == 0) | (targets == 1)).all())
    if marks and bool((targets.sum(1) == 1).all()):
        return replace(form, one_hot=True)
    # rows of probabilities are what torch takes as they are
    if targets.is_floating_point() and not marks:
        return form
    raise InputError(
        f"targets of shape {tuple(targets.shape)} are not one-hot and the loss is cross-entropy: "
        "give loss='bce' for several labels a sample, or numbers of classes"
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
