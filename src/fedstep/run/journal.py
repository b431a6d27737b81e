"""Rows of a run, appended one a round; what a crash tears off is cut."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fedstep.core.errors import InputError, brief, named_errors
from fedstep.run.files import CHECKSUM, parsed_json, plain, write_bytes

BEGIN_ANEW = "remove the run's folder to begin it anew"


@dataclass(frozen=True)
class JournalMark:
    """How long a journal was at some moment, and the hash of what it held.

    A checkpoint means that part of it.
    """

    bytes: int
    sha256: str


class Journal:
    """A JSON-lines file of rounds 1, 2, ... without gaps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # the hash runs along, so that a checkpoint need not read a long journal
        self._hash = hashlib.sha256()
        self._bytes = 0

    def append(self, row: Mapping[str, Any]) -> None:
        line = _line(plain(row))
        # opened and closed for each row: a process that is killed loses none that it appended
        with named_errors(self.path), self.path.open("ab") as file:
            file.write(line)
        self._hash.update(line)
        self._bytes += len(line)

    def flush(self) -> None:
        """Bring the rows to the disk."""
        with named_errors(self.path), self.path.open("ab") as file:
            os.fsync(file.fileno())

    def mark(self) -> JournalMark:
        """What has been written by this object and kept by it."""
        return JournalMark(self._bytes, self._hash.hexdigest())

    def rows(self) -> list[dict[str, Any]]:
        """The whole rows; a torn last line is left out."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")
        # a row ends with its line: what follows the last end was torn off by a crash
        whole = lines[-1] == b""
        if whole:
            lines.pop()
        rows: list[dict[str, Any]] = []
        sealed = False  # whether the row before has a checksum
        for number, line in enumerate(lines, start=1):
            row = _parsed(line)
            if row is None:
                # only the last line may be torn; one in the middle was damaged later
                if number == len(lines) and not whole:
                    break
                raise InputError(f"{self.path}, line {number}: damaged, not JSON; {BEGIN_ANEW}")
            if not _is_sealed(row, line) and not _is_sound(row, sealed):
                raise InputError(
                    f"{self.path}, line {number}: damaged (its checksum does not agree); "
                    f"{BEGIN_ANEW}"
                )
            if row.get("round") != number:
                # a row is whole, but it is not the one that belongs here
                raise InputError(
                    f"{self.path}, line {number}: damaged "
                    f"(round {brief(row.get('round'))} in its place); {BEGIN_ANEW}"
                )
            sealed = row.pop(CHECKSUM, None) is not None
            rows.append(row)
        return rows

    def keep(self, rounds: int) -> None:
        """Cut to the first rounds, so that what follows is written once."""
        if rounds == 0:
            # not read: what is done again may be damaged
            self._replace(b"")
            return
        rows = self.rows()[:rounds]
        numbers = [row.get("round") for row in rows]
        if numbers != list(range(1, rounds + 1)):
            raise InputError(f"{self.path}: rounds are missing before {rounds}; {BEGIN_ANEW}")
        self._replace(b"".join(_line(row) for row in rows))

    def cut(self, mark: JournalMark) -> None:
        """Cut to what it was at a mark; a journal that was changed since is refused."""
        self._replace(self.before(mark))

    def before(self, mark: JournalMark) -> bytes:
        """What stood there at a mark; a journal that was changed since is refused."""
        data = b""
        if self.path.exists():
            data = self.path.read_bytes()[: mark.bytes]
        if hashlib.sha256(data).hexdigest() != mark.sha256:
            raise InputError(
                f"{self.path}: damaged (it does not agree with the checkpoint); {BEGIN_ANEW}"
            )
        return data

    def _replace(self, data: bytes) -> None:
        write_bytes(self.path, data)
        self._hash = hashlib.sha256(data)
        self._bytes = len(data)


def _line(row: Mapping[str, Any]) -> bytes:
    """A row as it stands in the file, with a checksum of its own: a run that is not finished has
    no mark that could hold one.
    """
    sealed = {**row, CHECKSUM: _row_checksum(row)}
    text = json.dumps(sealed, allow_nan=False)
    return (text + "\n").encode()


def _row_checksum(row: Mapping[str, Any]) -> str:
    text = json.dumps(row, allow_nan=False)
    # 64 bits: against damage, not against forgers
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_sealed(row: Mapping[str, Any], line: bytes) -> bool:
    """Whether a line ends with the checksum of what stands before it.

    So `_line` writes it, and no row need be written anew to be checked: a study has thousands.
    """
    seal = f', "{CHECKSUM}": "{row.get(CHECKSUM)}"}}'.encode()
    if not line.endswith(seal):
        return False
    rest = line.removesuffix(seal) + b"}"
    return bool(row[CHECKSUM] == hashlib.sha256(rest).hexdigest()[:16])


def _is_sound(row: Mapping[str, Any], sealed: bool) -> bool:
    """Whether a row agrees with its checksum.

    Rows of older versions have none. They come before all that have one, and hold numbers only: a
    text would be a checksum whose name was damaged.
    """
    if CHECKSUM not in row:
        return not sealed and not any(isinstance(value, str) for value in row.values())
    values = {name: value for name, value in row.items() if name != CHECKSUM}
    return bool(row[CHECKSUM] == _row_checksum(values))


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A row, or None where the line is not one."""
    try:
        # a study has hundreds of thousands of rows, and this is several times as fast
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        row = _parsed_by_python(line)
    if not isinstance(row, dict):
        return None
    return row


def _parsed_by_python(line: bytes) -> Any:
    """What Python takes for JSON and msgspec does not, or None."""
    try:
        return parsed_json(line)
    except ValueError:
        return None
