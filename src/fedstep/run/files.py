"""Results on disk: safetensors and JSON, written whole or not at all, with checksums.

Reading needs no torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedstep.core.errors import InputError, named_errors

if TYPE_CHECKING:
    from torch import Tensor

RUN_AGAIN = "remove the folder it lies in to run it again"
CHECKSUM = "checksum"  # the field of a sealed file that is computed from all others


def write_bytes(path: Path, data: bytes) -> None:
    """Write to a neighbour, flush it to the disk, then rename.

    A crash leaves the old file or the new one.
    """
    part = path.with_name(path.name + ".part")
    with named_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(data)
            # a rename may reach the disk before the data do: then the new name would hold nothing
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)


def write_text(path: Path, text: str) -> None:
    """Text in UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """One JSON value."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """A JSON value as a file holds it."""
    text = json.dumps(plain(value), indent=1, allow_nan=False)
    return (text + "\n").encode()


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """JSON lines."""
    lines = []
    for row in rows:
        # NaN is no JSON: `plain` makes it null, and what slips through is an error here
        text = json.dumps(plain(row), allow_nan=False)
        lines.append(text + "\n")
    write_text(path, "".join(lines))


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Named tensors as safetensors; returns the SHA-256 of the file."""
    data = tensor_bytes(tensors)
    write_bytes(path, data)
    return hashlib.sha256(data).hexdigest()


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Named tensors as a file of safetensors holds them."""
    import safetensors.torch  # here, so that reports need no torch

    # clones: safetensors refuses tensors that share storage, as a readout and its iterate do
    copies = {}
    for name, tensor in tensors.items():
        copies[name] = tensor.detach().clone().cpu()
    data: bytes = safetensors.torch.save(copies)
    return data


def read_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    """The tensors of a file with this hash; one that has another is refused."""
    import safetensors.torch  # here, so that reports need no torch

    try:
        # read once: what is hashed is what is parsed
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; {RUN_AGAIN}") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise InputError(f"{path}: damaged (its checksum does not agree); {RUN_AGAIN}")
    tensors: dict[str, Tensor] = safetensors.torch.load(data)
    return tensors


def write_sealed(path: Path, fields: Mapping[str, Any]) -> None:
    """A JSON object with a checksum over all its fields."""
    write_json(path, {**fields, CHECKSUM: _checksum(fields)})


def read_sealed(path: Path, needed: Iterable[str] = ()) -> dict[str, Any]:
    """The fields of a sealed file; one that is damaged, or lacks a needed field, is refused.

    Older files have no seal and are believed.
    """
    fields = _json_in(path)
    if not isinstance(fields, dict):
        raise InputError(f"{path}: damaged, not a JSON object; {RUN_AGAIN}")
    checksum = fields.pop(CHECKSUM, None)
    if checksum is not None and checksum != _checksum(fields):
        raise InputError(f"{path}: damaged (its checksum does not agree); {RUN_AGAIN}")
    missing = [name for name in needed if name not in fields]
    if missing:
        raise InputError(f"{path}: damaged ({', '.join(missing)} missing); {RUN_AGAIN}")
    return fields


def _json_in(path: Path) -> Any:
    """One JSON value; a file that is missing or damaged is refused."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; {RUN_AGAIN}") from None
    try:
        return parsed_json(data)
    except ValueError as error:
        raise InputError(f"{path}: damaged, not JSON ({error}); {RUN_AGAIN}") from None


def parsed_json(data: bytes) -> Any:
    """A JSON value from a file; ValueError for whatever is none."""
    try:
        return DECODER.decode(data.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    """`NaN` and `Infinity`: Python reads them, no file of results holds them."""
    raise ValueError(f"{name} is no JSON")


# one for all: a decoder of its own for every row of a journal would cost more than the row
DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _checksum(fields: Mapping[str, Any]) -> str:
    # sorted: the order of the fields is no part of what they say
    text = json.dumps(plain(fields), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder to the disk.

    A rename may otherwise come after what was done later.
    """
    if sys.platform == "win32":
        return  # a directory cannot be opened there
    with named_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: NaN and infinities become null."""
    if hasattr(value, "item"):  # numpy's and torch's numbers
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
