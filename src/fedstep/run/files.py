"""Results on disk: safetensors and JSON, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def write_bytes(path: Path, data: bytes) -> None:
    """Write to a neighbour, flush it to the disk, then rename: a crash leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def write_text(path: Path, text: str) -> None:
    """Text in UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """One JSON value."""
    write_text(path, json.dumps(plain(value), indent=1, allow_nan=False) + "\n")


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """JSON lines."""
    write_text(path, "".join(json.dumps(plain(row), allow_nan=False) + "\n" for row in rows))


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Named tensors as safetensors."""
    import safetensors.torch  # here, so that reports need no torch

    write_bytes(path, safetensors.torch.save({k: v.detach().clone() for k, v in tensors.items()}))


def plain(value: Any) -> Any:
    """A value as JSON can hold it: NaN and infinities become null."""
    if hasattr(value, "item"):  # numpy's and torch's numbers
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value
