"""Rows of a run, appended one a round; what a crash tears off is cut."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedstep.core.errors import InputError
from fedstep.run.files import plain, write_bytes

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
        text = json.dumps(plain(row), allow_nan=False)
        line = (text + "\n").encode()
        # opened and closed for each row: a process that is killed loses none that it appended
        with self.path.open("ab") as file:
            file.write(line)
        self._hash.update(line)
        self._bytes += len(line)

    def flush(self) -> None:
        """Bring the rows to the disk."""
        with self.path.open("ab") as file:
            os.fsync(file.fileno())

    def mark(self) -> JournalMark:
        """What has been written by this object and kept by it."""
        return JournalMark(self._bytes, self._hash.hexdigest())

    def rows(self) -> list[dict[str, Any]]:
        """The whole rows; a torn last line is left out."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        rows: list[dict[str, Any]] = []
        for number, line in enumerate(lines, start=1):
            row = _parsed(line)
            if row is not None:
                rows.append(row)
            elif number < len(lines):
                # only the last line may be torn; one in the middle was damaged later
                raise InputError(f"{self.path}, line {number}: not JSON; {BEGIN_ANEW}")
        return rows

    def keep(self, rounds: int) -> None:
        """Cut to the first rounds, so that what follows is written once."""
        rows = self.rows()[:rounds]
        numbers = [row.get("round") for row in rows]
        if numbers != list(range(1, rounds + 1)):
            raise InputError(f"{self.path}: rounds are missing before {rounds}; {BEGIN_ANEW}")
        texts = [json.dumps(row, allow_nan=False) for row in rows]
        lines = "".join(text + "\n" for text in texts)
        self._replace(lines.encode())

    def cut(self, mark: JournalMark) -> None:
        """Cut to what it was at a mark; a journal that was changed since is refused."""
        data = b""
        if self.path.exists():
            data = self.path.read_bytes()[: mark.bytes]
        if hashlib.sha256(data).hexdigest() != mark.sha256:
            raise InputError(
                f"{self.path}: damaged (it does not agree with the checkpoint); {BEGIN_ANEW}"
            )
        self._replace(data)

    def _replace(self, data: bytes) -> None:
        write_bytes(self.path, data)
        self._hash = hashlib.sha256(data)
        self._bytes = len(data)


def _parsed(line: bytes) -> dict[str, Any] | None:
    """A row, or None where the line is not one."""
    try:
        row = json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError):
        return None
    if not isinstance(row, dict):
        return None
    return row
