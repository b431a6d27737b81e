"""Upstream files, plain or compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedstep.core.errors import InputError


def _open_gzip(stored: io.BytesIO) -> io.BufferedIOBase:
    return gzip.GzipFile(fileobj=stored)


def _open_xz(stored: io.BytesIO) -> io.BufferedIOBase:
    # not FORMAT_AUTO: whatever does not begin as xz does would be taken for the old format, whose
    # header has no checksum and may ask for any amount of memory
    return lzma.LZMAFile(stored, format=lzma.FORMAT_XZ)


def _open_bz2(stored: io.BytesIO) -> io.BufferedIOBase:
    return bz2.BZ2File(stored)


_OPENERS: dict[str, Callable[[io.BytesIO], io.BufferedIOBase]] = {
    ".gz": _open_gzip,
    ".xz": _open_xz,
    ".bz2": _open_bz2,
}
ENDINGS = ("", *_OPENERS)
# How much may come out of a packed file: a few hundred bytes can be packed so that they unpack to
# more than any memory. Text and images shrink by a factor of 3 to 100.
UNPACKED_ANYWAY = 2**28
UNPACKED_FACTOR = 300


def find(
    directory: str | Path,
    name: str,
) -> Path:
    """The file `name` of a directory, or its `.gz`, `.xz` or `.bz2` form; the plain file wins."""
    path = present(directory, name)
    if path is None:
        raise InputError(
            f"{name} is not in {directory}: "
            f"put it there, plain or as {name}.gz, {name}.xz or {name}.bz2"
        )
    return path


def present(
    directory: str | Path,
    name: str,
) -> Path | None:
    """Like `find`, but None where there is no such file."""
    for ending in ENDINGS:
        path = Path(directory) / (name + ending)
        if path.is_file():
            return path
    return None


def listing(
    directory: str | Path,
    ending: str,
) -> list[Path]:
    """Every file of a directory whose name, less compression, ends so.

    They are sorted by that name, and each name comes once.
    """
    if not Path(directory).is_dir():
        raise InputError(
            f"there is no directory {directory}: make it and put the {ending} files there"
        )
    names = set()
    for path in Path(directory).iterdir():
        name = _without_compression(path.name)
        if path.is_file() and name.endswith(ending):
            names.add(name)
    if not names:
        raise InputError(
            f"{directory} has no {ending} file: "
            f"put the {ending} files there, plain or as .gz, .xz or .bz2"
        )
    return [find(directory, name) for name in sorted(names)]


def read_bytes(path: Path) -> bytes:
    """The content of a file, decompressed as its name says."""
    try:
        stored = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if path.suffix not in _OPENERS:
        return stored
    if not stored:
        # gzip and bz2 would take it for an empty file
        raise InputError(f"{path} is empty: fetch it again")
    limit = UNPACKED_ANYWAY + UNPACKED_FACTOR * len(stored)
    opener = _OPENERS[path.suffix]
    try:
        with opener(io.BytesIO(stored)) as unpacked:
            # one more than is allowed tells whether there is more
            content = unpacked.read(limit + 1)
    except (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"{path} is damaged or cut short ({error}): fetch it again") from None
    if len(content) > limit:
        raise InputError(f"{path} unpacks to more than {limit:,} bytes: unpack it by hand, if so")
    return content


def read_json(path: Path) -> Any:
    """The JSON value in a file."""
    content = read_bytes(path)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error}): fetch it again") from None


def _without_compression(name: str) -> str:
    for ending in _OPENERS:
        if name.endswith(ending):
            return name.removesuffix(ending)
    return name
