"""All rounds of a study as one tidy table: a row for every method, seed and round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedstep.analysis.csv_text import csv_text
from fedstep.analysis.group import Group
from fedstep.analysis.results import Results
from fedstep.core.errors import InputError
from fedstep.run.files import write_bytes, write_text
from fedstep.run.history import Run
from fedstep.run.packed import all_columns

# the quantiles of a round's steps, in the order in which a row holds them
STEPS = ("step_min", "step_q1", "step_median", "step_q3", "step_max")


def tidy(results: Results) -> Iterator[dict[str, Any]]:
    """The rows; the steps' quantiles have columns of their own, gradients and bytes are also
    given summed up so far.
    """
    for group in results.groups:
        seeds_and_runs = zip(group.seeds, group.runs, strict=True)
        for seed, run in seeds_and_runs:
            yield from _run_rows(group, seed, run)


def write_csv(results: Results, path: Path) -> Path:
    """Comma-separated values with a header; empty where nothing was measured."""
    rows = list(tidy(results))
    columns = all_columns(rows)
    cells = []
    for row in rows:
        # methods differ in what they measure: an absent value is an empty cell
        cells.append([row.get(name) for name in columns])
    write_text(path, csv_text(columns, cells))
    return path


def write_parquet(results: Results, path: Path) -> Path:
    """The same table in Apache Parquet, with null where nothing was measured (extra `parquet`)."""
    # here, not above: the extra is large, and everything else works without it
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise InputError(
            "pyarrow is not installed: pip install 'fedstep[parquet]', or take --csv"
        ) from None
    rows = list(tidy(results))
    kinds = {
        bool: pyarrow.bool_(),
        int: pyarrow.int64(),
        str: pyarrow.string(),
    }

    def column(name: str) -> Any:
        values = [row.get(name) for row in rows]
        types = {type(value) for value in values if value is not None}
        kind = pyarrow.float64()
        # whole numbers among floats are floats that happen to be whole
        if len(types) == 1:
            kind = kinds.get(types.pop(), kind)
        return pyarrow.array(values, kind)

    columns = {name: column(name) for name in all_columns(rows)}
    table = pyarrow.table(columns)
    # into memory first: `write_bytes` replaces a file whole or not at all
    data = pyarrow.BufferOutputStream()
    parquet.write_table(table, data)
    write_bytes(path, data.getvalue().to_pybytes())
    return path


def _run_rows(
    group: Group,
    seed: int,
    run: Run,
) -> Iterator[dict[str, Any]]:
    named = {
        "label": group.label,
        "spec": group.choice.spec,
        "seed": seed,
        "finished": seed not in group.unfinished,
    }
    gradients = run.gradients
    traffic = run.bytes
    for place, row in enumerate(run.rows):
        measured = {key: value for key, value in row.items() if key != "steps"}
        quantiles = dict(zip(STEPS, row["steps"], strict=True))
        yield {
            **named,
            **measured,
            **quantiles,
            "gradients_so_far": gradients[place],
            "bytes_so_far": int(traffic[place]),
        }
