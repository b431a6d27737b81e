"""Rows of a run, appended one a round; what a crash tears off is cut."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedstep.core.errors import InputError
from fedstep.run.files import plain, write_lines


class Journal:
    """A JSON-lines file of rounds 1, 2, ... without gaps."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, row: Mapping[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(plain(row), allow_nan=False) + "\n")

    def flush(self) -> None:
        """Bring the rows to the disk."""
        with self.path.open("a") as file:
            os.fsync(file.fileno())

    def rows(self) -> list[dict[str, Any]]:
        """The whole rows; a torn last line is left out."""
        if not self.path.exists():
            return []
        lines = self.path.read_text().split("\n")
        if lines[-1] == "":
            lines.pop()
        rows: list[dict[str, Any]] = []
        for number, line in enumerate(lines):
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                if number < len(lines) - 1:
                    raise InputError(
                        f"{self.path}, line {number + 1}: not JSON; remove the run's folder to begin it anew"
                    ) from None
        return rows

    def keep(self, rounds: int) -> None:
        """Cut to the first rounds, so that what follows is written once."""
        rows = self.rows()
        if [row["round"] for row in rows[:rounds]] != list(range(1, rounds + 1)):
            raise InputError(
                f"{self.path}: rounds are missing before {rounds}; remove the run's folder to begin it anew"
            )
        write_lines(self.path, rows[:rounds])
