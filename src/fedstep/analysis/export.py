"""All rounds of a study as one tidy table: a row for every method, seed and round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedstep.analysis.csv_text import csv_text
from fedstep.analysis.results import Results
from fedstep.core.errors import InputError
from fedstep.run.files import write_bytes, write_text

STEPS = ("step_min", "step_q1", "step_median", "step_q3", "step_max")


def tidy(results: Results) -> Iterator[dict[str, Any]]:
    """The rows; the steps' quantiles have columns of their own, gradients and bytes are also given summed up so far."""
    for group in results.groups:
        for seed, run in zip(group.seeds, group.runs, strict=True):
            finished = seed not in group.unfinished
            for row, gradients, traffic in zip(run.rows, run.gradients, run.bytes, strict=True):
                rest = {key: value for key, value in row.items() if key != "steps"}
                steps = dict(zip(STEPS, row["steps"], strict=True))
                named = {
                    "label": group.label,
                    "spec": group.choice.spec,
                    "seed": seed,
                    "finished": finished,
                }
                yield {
                    **named,
                    **rest,
                    **steps,
                    "gradients_so_far": gradients,
                    "bytes_so_far": int(traffic),
                }


def write_csv(results: Results, path: Path) -> Path:
    """Comma-separated values with a header; empty where nothing was measured."""
    rows = list(tidy(results))
    write_text(path, csv_text(list(rows[0]), [list(row.values()) for row in rows]))
    return path


def write_parquet(results: Results, path: Path) -> Path:
    """The same table in Apache Parquet, with null where nothing was measured (extra `parquet`)."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise InputError(
            "pyarrow is not installed: pip install 'fedstep[parquet]', or take --csv"
        ) from None
    rows = list(tidy(results))
    kinds = {bool: pyarrow.bool_(), int: pyarrow.int64(), str: pyarrow.string()}

    def column(name: str) -> Any:
        values = [row[name] for row in rows]
        seen = {type(v) for v in values if v is not None}
        kind = kinds.get(seen.pop(), pyarrow.float64()) if len(seen) == 1 else pyarrow.float64()
        return pyarrow.array(values, kind)

    data = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table({name: column(name) for name in rows[0]}), data)
    write_bytes(path, data.getvalue().to_pybytes())
    return path
