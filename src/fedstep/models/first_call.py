"""A model called once, before the first round: what does not fit is refused in a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.data.federation import Federation, Transform
from fedstep.models.flat import FlatModel
from fedstep.models.loss_kinds import LossKind, loss_name
from fedstep.models.losses import OwnLoss
from fedstep.models.module import ModuleModel
from fedstep.models.outputs import predictions_of
from fedstep.models.seeded import seeded

FEW = 3  # samples that the model is called with


def check_fit(flat: FlatModel, federation: Federation) -> None:
    """Refuse a model that cannot be called with the clients' samples as they are."""
    if not isinstance(flat, ModuleModel):
        return
    fields = first_samples(federation)
    check_loss(flat, output_or_refused(flat, fields), fields)


def first_samples(federation: Federation) -> tuple[Tensor, ...]:
    """The first samples of the first client."""
    index = federation.parts.samples[:FEW]
    return as_read(tuple(field[index] for field in federation.fields), federation.transform)


def as_read(fields: tuple[Tensor, ...], transform: Transform | None) -> tuple[Tensor, ...]:
    """Samples as a batch has them."""
    if transform is None:
        return fields
    return tuple(transform(fields, None))


def output_or_refused(flat: ModuleModel, fields: tuple[Tensor, ...], whose: str = "") -> Any:
    """What the module returns for the samples."""
    try:
        return called_once(flat, fields)
    except InputError:
        raise
    except Exception as error:
        # any error of the user's code
        raise InputError(whose + misfit(flat, fields, error)) from error


def called_once(flat: ModuleModel, fields: tuple[Tensor, ...]) -> Any:
    """What the module returns for the samples, or its error."""
    x = flat.init()
    batch = _batch(fields, x)
    with torch.no_grad(), seeded(0, x.device):
        return flat.output(x, batch)


def misfit(flat: ModuleModel, fields: tuple[Tensor, ...], error: Exception) -> str:
    """Why the module cannot be called with the samples."""
    if isinstance(flat.loss, OwnLoss):
        given = _shapes(fields)
    else:
        given = _shapes(fields[:-1])
    return (
        f"{type(flat.module).__name__} cannot be called with {given} "
        f"({type(error).__name__}: {_first_line(error)}): "
        "the model and the samples do not fit"
    )


def check_loss(flat: ModuleModel, output: Any, fields: tuple[Tensor, ...]) -> None:
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


def _batch(fields: tuple[Tensor, ...], x: Tensor) -> Batch:
    """Samples as a batch on the device of the model."""
    there = tuple(field.to(x.device) for field in fields)
    return Batch(there, x.new_tensor(1.0), torch.tensor(0))


def _shapes(fields: Sequence[Tensor]) -> str:
    """Shapes and types, as a person writes them."""
    words = []
    for field in fields:
        words.append(f"{tuple(field.shape)} {str(field.dtype).removeprefix('torch.')}")
    return ", ".join(words)


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return lines[0][:200]
