"""Upstream files, plain or compressed."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedstep.core.errors import InputError

_OPENERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
}


def find(directory: str | Path, name: str) -> Path:
    """The file `name` of a directory, or its `.gz`, `.xz` or `.bz2` form; the plain file wins."""
    path = present(directory, name)
    if path is None:
        raise InputError(
            f"{name} is not in {directory}: put it there, plain or as {name}.gz, {name}.xz or {name}.bz2"
        )
    return path


def present(directory: str | Path, name: str) -> Path | None:
    """Like `find`, but None where there is no such file."""
    candidates = (Path(directory) / (name + ending) for ending in _OPENERS)
    return next((path for path in candidates if path.is_file()), None)


def listing(directory: str | Path, ending: str) -> list[Path]:
    """Every file of a directory whose name, less compression, ends so; sorted by that name and each name once."""
    if not Path(directory).is_dir():
        raise InputError(
            f"there is no directory {directory}: make it and put the {ending} files there"
        )
    names = {_plain(path.name) for path in Path(directory).iterdir() if path.is_file()}
    found = [find(directory, name) for name in sorted(names) if name.endswith(ending)]
    if not found:
        raise InputError(
            f"{directory} has no {ending} file: put the {ending} files there, plain or as .gz, .xz or .bz2"
        )
    return found


def read(path: Path) -> bytes:
    """The content of a file, decompressed as its name says."""
    try:
        stored = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    ending = path.suffix if path.suffix in _OPENERS else ""
    if ending and not stored:  # gzip and bz2 would take it for an empty file
        raise InputError(f"{path} is empty: fetch it again")
    try:
        return _OPENERS[ending](stored)
    except (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"{path} is damaged or cut short ({error}): fetch it again") from None


def read_json(path: Path) -> Any:
    """The JSON value in a file."""
    content = read(path)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error}): fetch it again") from None


def _plain(name: str) -> str:
    stem, dot, last = name.rpartition(".")
    return stem if dot + last in _OPENERS and dot else name
