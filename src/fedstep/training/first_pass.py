"""Before the first round the model is called once: what does not fit is cast, or refused in a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.data.federation import Federation, Transform
from fedstep.data.forms import FieldForm, class_form, form_note
from fedstep.data.gathering import Gathered
from fedstep.data.lazy import ReadSamples
from fedstep.models.flat import FlatModel
from fedstep.models.loss_kinds import LossKind, loss_name
from fedstep.models.losses import OwnLoss
from fedstep.models.module import ModuleModel
from fedstep.models.outputs import predictions_of
from fedstep.models.seeded import seeded

FEW = 3  # samples that the model is called with


def fitting(flat: FlatModel, samples: Gathered) -> Gathered:
    """The samples in the form that the model and its loss take."""
    if not isinstance(flat, ModuleModel):
        return samples
    federation = samples.federation
    # the first samples of the first client
    index = federation.parts.samples[:FEW]
    fields = _read(tuple(field[index] for field in federation.fields), federation.transform)
    form = FieldForm(dtype=flat.layout.dtype)
    base, output = _called(flat, form, fields)
    form = base
    known = fields[-1]
    if federation.transform is None:
        known = federation.fields[-1]
    if flat.loss_kind is LossKind.CLASSES:
        form = class_form(base, known, predictions_of(output))
    _check_loss(flat, output, form(fields))
    samples = _in_form(samples, form, form_note(form, fields))
    if federation.transform is None:
        scores = predictions_of(output)
        samples = _scored_in_form(samples, base, flat.loss_kind, scores)
    _check_scored(flat, samples)
    return samples


def _read(fields: tuple[Tensor, ...], transform: Transform | None) -> tuple[Tensor, ...]:
    if transform is None:
        return fields
    return tuple(transform(fields, None))


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
            return attempt, _output(flat, attempt(fields))
        except InputError:
            raise
        except Exception as error:
            # any error of the user's code
            failure = error
    raise InputError(_refusal(flat, fields, failure)) from failure


def _output(flat: ModuleModel, fields: tuple[Tensor, ...]) -> Any:
    x = flat.init()
    batch = _batch(fields, x)
    with torch.no_grad(), seeded(0, x.device):
        return flat.output(x, batch)


def _batch(fields: tuple[Tensor, ...], x: Tensor) -> Batch:
    """Samples as a batch on the device of the model."""
    there = tuple(field.to(x.device) for field in fields)
    return Batch(there, x.new_tensor(1.0), torch.tensor(0))


def _refusal(
    flat: ModuleModel, fields: tuple[Tensor, ...], error: Exception, whose: str = ""
) -> str:
    if isinstance(flat.loss, OwnLoss):
        given = _shapes(fields)
    else:
        given = _shapes(fields[:-1])
    return (
        f"{whose}{type(flat.module).__name__} cannot be called with {given} "
        f"({type(error).__name__}: {_first_line(error)}): "
        "the model and the samples do not fit"
    )


def _check_loss(flat: ModuleModel, output: Any, fields: tuple[Tensor, ...]) -> None:
    """The loss of the first samples; an error of it is one line with both shapes."""
    targets = fields[-1]
    predictions = predictions_of(output)
    # an error of the user's own loss stays as it is: the run meets it and says where
    if flat.loss_kind is None or predictions is None:
        return
    one_by_one = flat.loss_kind is not LossKind.CLASSES
    if one_by_one and predictions.numel() != targets.numel():
        raise InputError(
            f"loss {loss_name(flat.loss)} compares number by number, and {_shapes([predictions])} "
            f"of predictions do not fit {_shapes([targets])} of targets: "
            "change the last layer or the targets"
        )
    try:
        flat.losses(output, _batch(fields, flat.init()))
    except InputError:
        raise
    except Exception as error:
        # a label out of range is named with its client later
        if isinstance(error, IndexError):
            return
        raise InputError(
            f"loss {loss_name(flat.loss)} does not take {_shapes([predictions])} of predictions "
            f"and {_shapes([targets])} of targets ({_first_line(error)})"
        ) from error


def _check_scored(flat: ModuleModel, samples: Gathered) -> None:
    for name, scored in samples.scored.items():
        few = tuple(field[:FEW] for field in scored.fields)
        fields = _read(few, samples.federation.transform)
        try:
            _output(flat, fields)
        except InputError:
            raise
        except Exception as error:
            raise InputError(_refusal(flat, fields, error, f"{name}: ")) from error


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


def _shapes(fields: Sequence[Tensor]) -> str:
    """Shapes and types, as a person writes them."""
    words = []
    for field in fields:
        words.append(f"{tuple(field.shape)} {str(field.dtype).removeprefix('torch.')}")
    return ", ".join(words)


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return lines[0][:200]
