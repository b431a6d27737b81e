"""Clients from a table with a column that names the client: pandas, polars, dicts, CSV, datasets.

No library of tables is imported: every one of them gives a column as a NumPy array.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedstep.core.errors import InputError, unknown
from fedstep.core.printable import printable
from fedstep.data.federation import Federation
from fedstep.data.parts import Parts

Array = NDArray[Any]
SHOWN = 4  # names in a line
SEPARATORS = (",", ";", "\t")  # the first where none occurs
GAPS = {"", "na", "n/a", "nan", "null", "none", "?"}


def clients_from(
    table: Any,
    client: str,
    target: str,
    inputs: Sequence[str] | None = None,
) -> Federation:
    """Clients from a table; `client` names the column that says whose row it is.

    table: a pandas or polars frame, a dict of NumPy arrays, a `datasets.Dataset`, or the path of a
    CSV file with a header. Inputs are all other columns, or those named, as float32 in that order;
    the target is float32 where it has fractions, else whole numbers; classes that are texts are
    numbered in their order. A line on stderr says what was cast. Clients are numbered in the order
    of their names: `sorted(set(table[client]))`.

    >>> table = {"site": np.array(["b", "a", "b"]), "age": np.array([61, 50, 43]), "y": np.array([1, 0, 1])}
    >>> clients_from(table, client="site", target="y").sizes.tolist()
    [1, 2]
    """
    columns = _columns_of(table)
    for name in (client, target, *(inputs or ())):
        if name not in columns:
            raise InputError(
                unknown(
                    "column",
                    name,
                    list(columns),
                )
            )
    # in the order of the table, which is what a person sees
    if inputs is None:
        inputs = [name for name in columns if name not in (client, target)]
    if not inputs:
        raise InputError(
            f"there are no columns besides {client!r} and {target!r}: nothing to learn from"
        )
    # in the order in which they are named: that is the order of the model's inputs
    each = [_input_column(columns[name], name) for name in inputs]
    goal = _target_column(columns[target], target)
    # sorted names: the order of the rows must not decide who is client 0
    names, owners = np.unique(_no_gaps(columns[client], client), return_inverse=True)
    notes = (_cast_note([*each, goal]), f"{len(names)} clients by {client!r}")
    line = "; ".join(note for note in notes if note)
    print(f"clients_from: {printable(line)}", file=sys.stderr)
    stacked = torch.stack([column.values for column in each], dim=1)
    return Federation(
        fields=(stacked, goal.values),
        parts=Parts.grouped(owners.astype(np.int64), len(names)),
        notes=tuple(note for note in notes if note),
    )


@dataclass(frozen=True)
class CastColumn:
    """A column as a tensor, and what it was before."""

    name: str
    values: Tensor
    before: str

    @property
    def after(self) -> str:
        return str(self.values.dtype).removeprefix("torch.")


def _columns_of(table: Any) -> dict[str, Array]:
    if isinstance(table, str | Path):
        return _csv_columns(Path(table))
    if isinstance(table, Mapping) and not hasattr(table, "column_names"):
        return {str(name): np.asarray(column) for name, column in table.items()}
    # `datasets` calls them so, pandas and polars say `columns`
    names = getattr(table, "column_names", None)
    if names is None:
        names = getattr(table, "columns", None)
    if names is None or isinstance(names, Mapping):
        raise InputError(
            f"{type(table).__name__} is no table of columns: give a pandas or polars frame, "
            "a dict of arrays, a datasets.Dataset or the path of a CSV file"
        )
    return {str(name): _as_array(table[name]) for name in names}


def _as_array(column: Any) -> Array:
    # pandas and polars alike, and neither is imported
    if hasattr(column, "to_numpy"):
        return np.asarray(column.to_numpy())
    # a column of `datasets` is read when it is sliced
    return np.asarray(column[:])


def _csv_columns(path: Path) -> dict[str, Array]:
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    rows = _csv_rows(path)
    if len(rows) < 2:
        raise InputError(f"{path}: a header and at least one row are needed")
    # the whole file: a table that is dealt to clients is in memory anyway
    header, *body = rows
    for number, row in enumerate(body, start=2):
        # a comma too many shifts all that follows: a number under another name is worse than an error
        if len(row) != len(header):
            raise InputError(f"{path}, line {number}: {len(row)} values under {len(header)} names")
    columns = {}
    for place, name in enumerate(header):
        columns[name] = _parsed([row[place] for row in body])
    return columns


def _csv_rows(path: Path) -> list[list[str]]:
    try:
        # a spreadsheet puts a mark in front of the first name, which would be part of it
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = file.readline()
            # spreadsheets of half of Europe part cells by semicolons
            mark = max(SEPARATORS, key=header.count)
            file.seek(0)
            rows = list(csv.reader(file, delimiter=mark))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: no CSV file in UTF-8 ({error}): save it as one") from None
    # an empty line at the end is no row
    return [row for row in rows if row]


def _parsed(texts: list[str]) -> Array:
    """Numbers where all are; an empty cell is a gap, and so is what stands for one."""
    filled = []
    for text in texts:
        if text.strip().lower() in GAPS:
            text = "nan"
        filled.append(text)
    # whole numbers first: classes must not become fractions
    for kind in (np.int64, np.float64):
        try:
            return np.array(filled).astype(kind)
        except (ValueError, OverflowError):
            continue
    return np.array(texts)


def _no_gaps(
    column: Array,
    name: str,
) -> Array:
    """The column; refused where a value is missing."""
    # types without a value for "missing" cannot have gaps
    gaps = 0
    if column.dtype.kind == "f":
        gaps = int(np.isnan(column).sum())
    elif column.dtype.kind == "O":
        gaps = sum(value is None or value != value for value in column.tolist())
    if gaps:
        raise InputError(
            f"column {name!r}: {gaps} of {len(column)} values are missing: fill them or drop the rows"
        )
    if column.dtype.kind == "O":
        return column.astype(str)
    return column


def _input_column(
    column: Array,
    name: str,
) -> CastColumn:
    if column.dtype.kind == "O":
        column = _numbers_of_objects(column)
    whole = _no_gaps(column, name)
    if whole.dtype.kind not in "biuf" or whole.ndim != 1:
        raise InputError(
            f"column {name!r} is {whole.dtype}, not numbers: encode it, or leave it out by inputs=[...]"
        )
    # what models are made of; the caller is told what was cast
    values = torch.from_numpy(whole.astype(np.float32))
    return CastColumn(name, values, str(whole.dtype))


def _target_column(
    column: Array,
    name: str,
) -> CastColumn:
    if column.dtype.kind == "O":
        column = _numbers_of_objects(column)
    whole = _no_gaps(column, name)
    before = str(whole.dtype)
    if whole.dtype.kind in "biu":
        return CastColumn(
            name,
            torch.from_numpy(whole.astype(np.int64)),
            before,
        )
    if whole.dtype.kind == "f":
        return CastColumn(
            name,
            torch.from_numpy(whole.astype(np.float32)),
            before,
        )
    classes, numbers = np.unique(whole.astype(str), return_inverse=True)
    # some of them, so that the numbering can be seen
    shown = ", ".join(classes[:SHOWN])
    return CastColumn(
        name,
        torch.from_numpy(numbers.astype(np.int64)),
        f"classes {shown}",
    )


def _numbers_of_objects(column: Array) -> Array:
    """A column of Python objects as numbers, where all of them are (None is a gap)."""
    try:
        # pandas holds whole numbers with a gap as objects
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return column


def _cast_note(columns: Sequence[CastColumn]) -> str:
    """Which columns were cast from what, in a line."""
    # a line for all columns of a kind: a table may have hundreds
    groups: dict[tuple[str, str], list[str]] = {}
    for column in columns:
        if column.before != column.after:
            groups.setdefault((column.before, column.after), []).append(column.name)
    words = []
    for (before, after), names in groups.items():
        shown = ", ".join(names[:SHOWN])
        if len(names) > SHOWN:
            shown += f" and {len(names) - SHOWN} more"
        words.append(f"{shown}: {before} cast to {after}")
    return "; ".join(words)
