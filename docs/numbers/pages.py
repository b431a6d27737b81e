"""A page whose tables are made: each stands between two comments that name it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
MEASURED = ROOT / "benchmarks" / "results"
BEGIN = "<!-- {name}: made by python docs/numbers -->\n\n"
END = "\n<!-- until here -->"


@dataclass(frozen=True)
class Block:
    """A part of a page that is made from committed results."""

    page: str  # its path from the root
    name: str  # as the comment in front of it has it
    make: Callable[[], str]


def placed(text: str, block: Block) -> str:
    """The text of a page with one of its blocks made anew."""
    begin = BEGIN.format(name=block.name)
    parts = text.split(begin)
    if len(parts) != 2:
        found = f"{len(parts) - 1} times"
        raise ValueError(f"{block.page}: {begin.strip()} stands there {found}, not once")
    before, rest = parts
    after = rest[rest.index(END) :]
    return before + begin + block.make() + after
