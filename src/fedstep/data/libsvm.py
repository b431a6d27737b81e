"""The LIBSVM collection's sparse text."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.data.files import find, read


def libsvm(
    directory: str | Path,
    name: str,
    n_features: int | None = None,
    labels: Sequence[float] | None = None,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Lines `label index:value ...` (indices from 1, ascending) as a dense matrix and int64 classes 0..C-1.

    Classes are numbered by ascending label value: -1, +1 become 0, 1. A test part may lack features or classes of its
    training part; `n_features` and `labels` (all values, ascending) then keep the two alike.
    """
    path = find(directory, name)
    values, rows, columns, entries = _parse(path)
    width = max(columns, default=0)
    if n_features is not None and width > n_features:
        raise InputError(
            f"{path} has feature {width}: libsvm(n_features={n_features}) must be {width} or more"
        )
    width = n_features or width
    if width < 1:
        raise InputError(f"{path} has no features: give n_features")
    inputs = torch.zeros(len(values), width, dtype=dtype)
    flat = np.asarray(rows, np.int64) * width + np.asarray(columns, np.int64) - 1
    inputs.view(-1)[torch.from_numpy(flat)] = torch.tensor(entries, dtype=dtype)
    known = sorted(set(values)) if labels is None else [float(v) for v in labels]
    if labels is not None and (known != sorted(set(known)) or not set(values) <= set(known)):
        found = ", ".join(f"{v:g}" for v in sorted(set(values)))
        raise InputError(
            f"libsvm(labels={labels}): must be ascending and contain every label of {path}: {found}"
        )
    order = {value: i for i, value in enumerate(known)}
    return inputs, torch.tensor([order[v] for v in values])


def _parse(path: Path) -> tuple[list[float], list[int], list[int], list[float]]:
    labels: list[float] = []
    rows: list[int] = []
    columns: list[int] = []
    entries: list[float] = []
    for number, line in enumerate(read(path).splitlines(), 1):
        words = line.partition(b"#")[0].split()
        if not words:
            continue
        try:
            if b"_" in line:  # Python would read 1_0 as 10
                raise ValueError
            label, last = float(words[0]), 0
            for word in words[1:]:
                index, _, value = word.partition(b":")
                column, entry = int(index), float(value)
                if column <= last or not isfinite(entry):
                    raise ValueError
                columns.append(column)
                entries.append(entry)
                last = column
        except ValueError:
            raise InputError(
                f"{path}, line {number}: not `label index:value ...` with ascending indices from 1"
            ) from None
        if not label.is_integer():
            raise InputError(
                f"{path}, line {number}: label {words[0].decode('ascii', 'replace')} is not a whole number"
            )
        rows += [len(labels)] * (len(columns) - len(rows))
        labels.append(label)
    if not labels:
        raise InputError(f"{path} has no samples: fetch it again")
    return labels, rows, columns, entries
