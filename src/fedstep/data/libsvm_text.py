"""The LIBSVM collection's sparse text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.data.files import find, read_bytes

LARGEST_INDEX = 2**31 - 1  # LIBSVM's own programs keep it in 32 bits
# A matrix with more values than DENSE_ANYWAY is made only where enough of them are in the file: one
# wrong digit in an index would otherwise fill the memory with zeros.
DENSE_ANYWAY = 2**26
DENSE_FACTOR = 4096


def libsvm(
    directory: str | Path,
    name: str,
    n_features: int | None = None,
    labels: Sequence[float] | None = None,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    """Lines `label index:value ...` as a dense matrix and int64 classes 0..C-1.

    Indices begin at 1 and ascend. Classes are numbered by ascending label value: -1, +1 become
    0, 1. A test part may lack features or classes of its training part; `n_features` and `labels`
    (all values, ascending) then keep the two alike.
    """
    path = find(directory, name)
    text = _parse(path, largest=torch.finfo(dtype).max)
    width = _width(path, text, n_features)
    inputs = torch.zeros(
        len(text.labels),
        width,
        dtype=dtype,
    )
    # one assignment for all values: row after row would take minutes in Python
    places = np.asarray(text.rows, np.int64) * width
    places += np.asarray(text.columns, np.int64) - 1
    inputs.view(-1)[torch.from_numpy(places)] = torch.tensor(text.values, dtype=dtype)
    order = _class_numbers(path, text.labels, labels)
    return inputs, torch.tensor([order[label] for label in text.labels])


@dataclass
class _SparseText:
    """What the lines say; the last three have an entry for every `index:value`."""

    labels: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def _parse(
    path: Path,
    largest: float,
) -> _SparseText:
    text = _SparseText()
    for number, line in enumerate(read_bytes(path).splitlines(), 1):
        # what follows # is a remark
        words = line.partition(b"#")[0].split()
        if not words:
            continue
        try:
            _add_line(text, words, largest)
        except _WrongLine as error:
            raise InputError(f"{path}, line {number}: {error}") from None
        except ValueError:
            raise InputError(
                f"{path}, line {number}: not `label index:value ...` with ascending indices from 1"
            ) from None
    if not text.labels:
        raise InputError(f"{path} has no samples: fetch it again")
    return text


class _WrongLine(Exception):
    """A line that can be read and not used."""


def _add_line(
    text: _SparseText,
    words: list[bytes],
    largest: float,
) -> None:
    label = _number(words[0])
    last = 0
    for word in words[1:]:
        index, _, value_text = word.partition(b":")
        column = int(_number_text(index))
        value = _number(value_text)
        # written so that NaN fails too
        if not column > last or value != value:
            raise ValueError
        if column > LARGEST_INDEX:
            raise _WrongLine(f"index {_shown(index)} is beyond {LARGEST_INDEX}")
        if abs(value) > largest:
            raise _WrongLine(f"value {_shown(value_text)} is beyond {largest:.3g}: rescale it")
        text.rows.append(len(text.labels))
        text.columns.append(column)
        text.values.append(value)
        last = column
    # regression data are not for this reader, and a class 0.5 would be made silently
    if not label.is_integer():
        raise _WrongLine(f"label {_shown(words[0])} is not a whole number")
    text.labels.append(label)


def _number(word: bytes) -> float:
    return float(_number_text(word))


def _number_text(word: bytes) -> bytes:
    if b"_" in word:  # Python would read 1_0 as 10
        raise ValueError
    return word


def _shown(word: bytes) -> str:
    return word[:40].decode("ascii", "replace")


def _width(
    path: Path,
    text: _SparseText,
    n_features: int | None,
) -> int:
    widest = max(text.columns, default=0)
    if n_features is not None:
        if n_features < 1:
            raise InputError(f"libsvm(n_features={n_features}): give 1 or more")
        if widest > n_features:
            raise InputError(
                f"{path} has feature {widest}: "
                f"libsvm(n_features={n_features}) must be {widest} or more"
            )
        # whoever names the width means it, whatever it costs
        return n_features
    if widest < 1:
        raise InputError(f"{path} has no features: give n_features")
    size = widest * len(text.labels)
    if size > max(DENSE_ANYWAY, DENSE_FACTOR * len(text.values)):
        raise InputError(
            f"{path} has feature {widest}: a dense matrix of {size:,} values for the "
            f"{len(text.values):,} that are there; give n_features={widest} if that is meant"
        )
    return widest


def _class_numbers(
    path: Path,
    found: list[float],
    given: Sequence[float] | None,
) -> dict[float, int]:
    """The class of every label value."""
    # sorted by value: the order of first occurrence would depend on how a file was shuffled
    present = sorted(set(found))
    if given is None:
        return {value: number for number, value in enumerate(present)}
    known = [float(value) for value in given]
    ascending = known == sorted(set(known))
    if not ascending or not set(present) <= set(known):
        values = ", ".join(f"{value:g}" for value in present)
        raise InputError(
            f"libsvm(labels={given}): must be ascending and contain every label of {path}: {values}"
        )
    return {value: number for number, value in enumerate(known)}
