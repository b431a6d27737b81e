"""The table of docs/leaderboard.md, made from the committed results.

    python docs/standings.py

A test makes it anew and compares.
"""

from __future__ import annotations

from pathlib import Path

from fedstep.leaderboard.read import read_board
from fedstep.leaderboard.standings import standings_markdown

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "leaderboard.md"
BEGIN = "<!-- standings: made by python docs/standings.py -->\n\n"
END = "\n<!-- end of standings -->"


def made() -> str:
    """The page with the standings of the results as they are."""
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest[rest.index(END) :]
    table = standings_markdown(read_board(ROOT / "results" / "leaderboard"))
    return before + BEGIN + table + after


if __name__ == "__main__":
    PAGE.write_text(made())
