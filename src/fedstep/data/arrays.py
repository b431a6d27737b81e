"""One array as a tensor; what is none is refused with the way to make it one."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstep.core.errors import InputError

UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # torch can hardly compute with them


def as_array(values: Any, what: str) -> Tensor:
    """A tensor of numbers; `what` names it in errors."""
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise InputError(f"{what}: a sparse matrix of scipy: give values.toarray()")
    if isinstance(values, np.ndarray) and values.dtype.kind in "OUSMm":
        values = _numbers(values, what)
    try:
        with warnings.catch_warnings():
            # arrays that cannot be written (a memory map) are only read here
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        # texts, lists of unequal length, objects of other libraries
        raise InputError(
            f"{what}: no array of numbers ({error}): encode texts, and give samples of unequal "
            "length as a list with collate=fedstep.data.Pad()"
        ) from None
    if tensor.layout != torch.strided:
        raise InputError(f"{what}: a sparse tensor: give values.to_dense()")
    if tensor.dtype in UNSIGNED:
        tensor = tensor.to(torch.int64)
    # only the values are wanted: what they were computed of is no part of the run
    return tensor.detach()


def _numbers(values: np.ndarray[Any, Any], what: str) -> np.ndarray[Any, Any]:
    """An array of Python objects as numbers, where all of them are."""
    if values.dtype.kind in "Mm":
        raise InputError(f"{what}: dates: give numbers, such as days since the first")
    if values.dtype.kind == "O":
        # as lists they become whole numbers or real ones, as they are
        made = np.array(values.tolist())
        if made.dtype.kind in "biuf":
            return made
    raise InputError(
        f"{what}: texts or objects, not numbers: encode them, "
        "classes, numbers = np.unique(values, return_inverse=True)"
    )
