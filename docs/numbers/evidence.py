"""The blocks of docs/evidence.md, and that of the README about the same results."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from answers import answer_blocks
from evidence_aim import aim_table, lead_table, paper_table, short_table
from evidence_costs import cost_table, has_rivals
from evidence_curves import REMEMBERING, TABLES, curve_table, whole_groups
from evidence_grids import grid_table
from evidence_missing import missing_table
from evidence_readout import readout_table
from pages import Block

PAGE = "docs/evidence.md"


def blocks() -> Iterator[Block]:
    """The tasks, then what reviewers asked."""
    yield Block("README.md", "evidence", short_table)
    yield Block("README.md", "paper", paper_table)
    yield Block(PAGE, "aim", aim_table)
    yield Block(PAGE, "lead", lead_table)
    yield Block(PAGE, "averages", readout_table)
    yield Block(PAGE, "aim, remembering", partial(aim_table, REMEMBERING))
    yield Block(PAGE, "lead, remembering", partial(lead_table, REMEMBERING))
    for table in TABLES:
        if whole_groups(table):
            yield Block(PAGE, table.name, partial(curve_table, table))
        if has_rivals(table):
            yield Block(PAGE, f"{table.name}, cost", partial(cost_table, table))
    yield Block(PAGE, "grids", grid_table)
    yield Block(PAGE, "missing", missing_table)
    for name, make in answer_blocks():
        yield Block(PAGE, name, make)
