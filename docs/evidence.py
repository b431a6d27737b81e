"""The tables of docs/evidence.md and of the README, made from the committed results.

    python docs/evidence.py

A test makes them anew and compares: no number in a table of the page is written by hand. The
figures of its second half are drawn by docs/answers.py.
"""

from __future__ import annotations

from pathlib import Path

from evidence_costs import aim_table, cost_table, has_rivals, short_table
from evidence_curves import TABLES, curve_table, whole_groups
from evidence_grids import grid_table

PAGE = Path(__file__).resolve().parent / "evidence.md"
README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN = "<!-- {name}: made by python docs/evidence.py -->\n\n"
END = "\n<!-- until here -->"


def made() -> str:
    """The page with the tables of the results as they are."""
    text = PAGE.read_text()
    text = placed(text, "aim", aim_table())
    text = placed(text, "grids", grid_table())
    for table in TABLES:
        if whole_groups(table):
            text = placed(text, table.name, curve_table(table))
        if has_rivals(table):
            text = placed(text, f"{table.name}, cost", cost_table(table))
    return text


def placed(text: str, name: str, table: str) -> str:
    """The page with one of its tables made anew."""
    begin = BEGIN.format(name=name)
    before, rest = text.split(begin)
    after = rest[rest.index(END) :]
    return before + begin + table + after


def made_readme() -> str:
    """The README with its table of the same results."""
    return placed(README.read_text(), "evidence", short_table())


if __name__ == "__main__":
    PAGE.write_text(made())
    README.write_text(made_readme())
