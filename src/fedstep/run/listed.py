"""Files whose hashes stand in the `SHA256SUMS` beside them, as `sha256sum --check` reads it.

For files that have a form of their own, such as a study's TOML: they cannot hold a checksum.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from fedstep.core.errors import InputError
from fedstep.run.files import write_bytes, write_text

SUMS = "SHA256SUMS"
LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<name>[^\0/]+)")


def write_listed(path: Path, data: bytes) -> None:
    """Write a file and its hash.

    In between the file is not listed: a crash there leaves one that is believed, not one that is
    called damaged.
    """
    if path.exists() and path.read_bytes() == data and path.name in _sums(path.parent):
        return
    _list(path, None)
    write_bytes(path, data)
    _list(path, hashlib.sha256(data).hexdigest())


def read_listed(path: Path) -> bytes:
    """The bytes of a file; one that is not what was listed is refused.

    A file that is not listed is believed: it was written by an older version, or by hand.
    """
    data = path.read_bytes()
    listed = _sums(path.parent).get(path.name)
    if listed is not None and listed != hashlib.sha256(data).hexdigest():
        raise InputError(
            f"{path}: damaged (it does not agree with {SUMS}); "
            "run the same command again to write it anew, "
            f"or remove {path.parent / SUMS} if you have changed it yourself"
        )
    return data


def _sums(folder: Path) -> dict[str, str]:
    """Hashes by the name of the file."""
    path = folder / SUMS
    if not path.exists():
        return {}
    sums = {}
    # `replace`: a byte that is no text must not hide the lines that are whole
    for line in path.read_text(errors="replace").splitlines():
        match = LINE.fullmatch(line)
        # a line that was damaged lists nothing: the file it meant is believed, as it is whole
        if match is not None:
            sums[match["name"]] = match["sha256"]
    return sums


def _list(path: Path, sha256: str | None) -> None:
    """List a file with its hash, or no longer."""
    sums = _sums(path.parent)
    sums.pop(path.name, None)
    if sha256 is not None:
        sums[path.name] = sha256
    lines = [f"{value}  {name}\n" for name, value in sorted(sums.items())]
    write_text(path.parent / SUMS, "".join(lines))
