"""An entry: a method, the grid it is tuned on, and who sends it."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedstep.core.errors import InputError
from fedstep.leaderboard.track import FileName
from fedstep.study.plan import Label, Method, Numbers, Spec, Text
from fedstep.study.study_file import check_method, parse_table
from fedstep.study.typed import typed

ENTRIES = Path(__file__).parent / "entries"


@dataclass(frozen=True)
class BoardEntry:
    """A line of the leaderboard."""

    name: FileName
    title: Label
    spec: Spec  # as in a study: braces are filled from the grid
    who: Label
    licence: Label  # of the method's program
    grid: Numbers = field(default_factory=dict)
    text: Text = ""
    package: Text = ""  # the installed package that brings the method; none: fedstep's own
    version: Text = ""  # of the package; found where the entry is read

    @property
    def method(self) -> Method:
        """As a study has it."""
        return Method(self.title, self.spec, self.grid)

    def rules(self) -> dict[str, Any]:
        """All that decides a result.

        Names and words are not among it: with them anyone could draw new seeds as often as wanted.
        """
        return {
            "spec": self.spec,
            # the order of the values decides between equal ones
            "grid": self.grid,
            "package": self.package,
            "version": self.version,
        }


def read_entry(path: Path) -> BoardEntry:
    """An entry's file; every point of its grid is built once."""
    try:
        table = parse_table(path.read_bytes())
        for given in ("name", "version"):
            if given in table:
                raise InputError(f"{given}: it is not written down but found; leave it out")
        entry = typed(BoardEntry, {**table, "name": path.stem, "version": _version(table)})
        check_method(entry.method)
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such entry (fedstep leaderboard list names those that come along)"
        ) from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return entry


def shipped_entries() -> list[BoardEntry]:
    """The entries that come with the package."""
    return [read_entry(path) for path in sorted(ENTRIES.glob("*.toml"))]


def _version(table: dict[str, Any]) -> str:
    package = table.get("package", "")
    if not package:
        return ""
    try:
        return version(str(package))
    except PackageNotFoundError:
        raise InputError(
            f"package {package!r} is not installed: pip install {package}, then run it again"
        ) from None
