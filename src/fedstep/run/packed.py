"""Finished runs in one gzip file, a JSON line each, small enough for version control."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedstep.core.errors import InputError
from fedstep.run.files import parsed_json, write_bytes
from fedstep.run.folder import StoredRun

PACKED = "results.jsonl.gz"
PACKED_DIGITS = 6  # significant, in the compact file
LARGEST = 2**30  # bytes of text: millions of rounds, and no memory that a small file could fill


def pack_runs(runs: Mapping[str, StoredRun], path: Path) -> Path:
    """Write runs by digest; the same results give the same bytes.

    Floats keep 6 significant digits, every round is kept.
    """
    lines = [_line(digest, run) for digest, run in runs.items()]
    text = "".join(lines)
    data = io.BytesIO()
    # neither name, time nor platform in the header, so that the bytes depend on the results alone
    with gzip.GzipFile(
        "",
        "wb",
        9,
        data,
        mtime=0,
    ) as file:
        file.write(text.encode())
    write_bytes(path, data.getvalue())
    return path


def unpack(path: Path) -> dict[str, StoredRun]:
    """The runs of a compact file by digest."""
    runs = {}
    try:
        for line in _unpacked(path).splitlines():
            entry = parsed_json(line)
            digest = entry["digest"]
            # only finished runs are packed
            runs[digest] = StoredRun(_spec(entry), _rows(entry["columns"]), done=True)
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        zlib.error,
    ) as error:
        raise InputError(
            f"{path}: not packed results ({error}); make them anew with fedstep export --pack"
        ) from None
    return runs


def _unpacked(path: Path) -> bytes:
    with gzip.open(path) as file:
        data = file.read(LARGEST + 1)
    if not data:
        raise ValueError("it is empty")  # `gzip` takes no bytes for a file of no bytes
    if len(data) > LARGEST:
        raise ValueError(f"it unpacks to more than {LARGEST:,} bytes")
    return data


def _spec(entry: Mapping[str, Any]) -> dict[str, Any]:
    spec = dict(entry["spec"])
    # runs of older versions do not name themselves
    if spec.get("digest", entry["digest"]) != entry["digest"]:
        raise ValueError(f"the run {entry['digest']} holds the rows of {spec['digest']}")
    return spec


def all_columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns of any of the rows, in the order in which they first occur."""
    # a dictionary as an ordered set
    columns: dict[str, None] = {}
    for row in rows:
        columns.update(dict.fromkeys(row))
    return list(columns)


def _line(digest: str, run: StoredRun) -> str:
    # by column: the names stand once in the file, and gzip finds like beside like
    columns = {}
    for key in all_columns(run.rows):
        columns[key] = [short(row.get(key)) for row in run.rows]
    entry = {
        "digest": digest,
        "spec": run.spec,
        "columns": columns,
    }
    # NaN is no JSON: rows hold null instead, and anything else is a mistake upstream
    line = json.dumps(
        entry,
        separators=(",", ":"),
        allow_nan=False,
    )
    return line + "\n"


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    names = list(columns)
    rows: list[dict[str, Any]] = []
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(names, values, strict=True))
        if row["round"] != len(rows) + 1:
            raise ValueError(f"round {row['round']} stands in the place of {len(rows) + 1}")
        rows.append(row)
    return rows


def short(value: Any) -> Any:
    """A value of a row as the compact file has it."""
    if isinstance(value, float):
        digits = f"{value:.{PACKED_DIGITS}g}"
        return float(digits)
    if isinstance(value, list):
        return [short(item) for item in value]
    return value
