"""Before the first round the model is called once: what does not fit is cast, or refused in a line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.data.federation import Federation
from fedstep.data.forms import FieldForm, class_form, form_note
from fedstep.data.gathering import Gathered
from fedstep.data.lazy import ReadSamples
from fedstep.models.first_call import (
    FEW,
    as_read,
    called_once,
    check_loss,
    first_samples,
    misfit,
    output_or_refused,
)
from fedstep.models.flat import FlatModel
from fedstep.models.loss_kinds import LossKind
from fedstep.models.module import ModuleModel
from fedstep.models.outputs import predictions_of


def fitting(flat: FlatModel, samples: Gathered) -> Gathered:
    """The samples in the form that the model and its loss take."""
    if not isinstance(flat, ModuleModel):
        return samples
    federation = samples.federation
    fields = first_samples(federation)
    form = FieldForm(dtype=flat.layout.dtype)
    base, output = _called(flat, form, fields)
    form = base
    known = fields[-1]
    if federation.transform is None:
        known = federation.fields[-1]
    if flat.loss_kind is LossKind.CLASSES:
        form = class_form(base, known, predictions_of(output))
    check_loss(flat, output, form(fields))
    samples = _in_form(samples, form, form_note(form, fields))
    if federation.transform is None:
        scores = predictions_of(output)
        samples = _scored_in_form(samples, base, flat.loss_kind, scores)
    _check_scored(flat, samples)
    return samples


def _called(
    flat: ModuleModel, form: FieldForm, fields: tuple[Tensor, ...]
) -> tuple[FieldForm, Any]:
    """What the module returns; whole numbers are tried as they are first, they may be symbols."""
    attempts = [form]
    whole = [field for field in fields[:-1] if not field.is_floating_point()]
    if whole and not any(field.is_complex() for field in whole):
        # an embedding takes no small integers, and a linear layer none at all
        attempts.append(replace(form, whole_inputs=torch.int64))
        attempts.append(replace(form, whole_inputs=flat.layout.dtype))
    for attempt in attempts:
        try:
            return attempt, called_once(flat, attempt(fields))
        except InputError:
            raise
        except Exception as error:
            # any error of the user's code
            failure = error
    raise InputError(misfit(flat, fields, failure)) from failure


def _check_scored(flat: ModuleModel, samples: Gathered) -> None:
    for name, scored in samples.scored.items():
        few = tuple(field[:FEW] for field in scored.fields)
        fields = as_read(few, samples.federation.transform)
        output_or_refused(flat, fields, f"{name}: ")


def _scored_in_form(
    samples: Gathered,
    form: FieldForm,
    kind: LossKind | None,
    scores: Tensor | None,
) -> Gathered:
    """What is scored; its classes may come in another form than those of the clients."""
    scored = {}
    for name, one in samples.scored.items():
        own = form
        if kind is LossKind.CLASSES:
            try:
                own = class_form(form, one.fields[-1], scores)
            except InputError as error:
                raise InputError(f"{name}: {error}") from None
        scored[name] = replace(one, fields=own(one.fields))
    return replace(samples, scored=scored)


def _in_form(samples: Gathered, form: FieldForm, note: str | None) -> Gathered:
    federation = samples.federation
    notes = federation.notes
    if note is not None:
        notes = (*notes, note)
    transform = federation.transform
    if isinstance(transform, ReadSamples):
        # what is read later comes in the same form
        read = replace(transform, form=form)
        return replace(samples, federation=replace(federation, transform=read, notes=notes))
    if transform is not None:
        return samples
    changed = Federation(
        fields=form(federation.fields),
        parts=federation.parts,
        names=federation.names,
        notes=notes,
    )
    return replace(samples, federation=changed)
