"""A comparison as tables: for the terminal, for Markdown, and as cells for a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isnan
from textwrap import fill

from rich.table import Table

from fedstep.analysis.compare import Comparison, Line
from fedstep.analysis.statistics import Difference, Spread

NONE = "-"
Column = tuple[str, Callable[[Line], str]]


@dataclass(frozen=True)
class Grid:
    """Words in rows and columns; the first column names the method."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def grids(comparison: Comparison) -> list[Grid]:
    """What was reached, how steadily, and what it cost; a column in which no method has a number is left out."""
    makers = {
        "What was reached": _reached,
        "How sure, how steady": _sure,
        "At other points": _other,
        "What it cost": _cost,
    }
    made = (_grid(comparison, title, columns(comparison)) for title, columns in makers.items())
    return [grid for grid in made if len(grid.heads) > 1]


def notes(comparison: Comparison) -> list[str]:
    """What the columns mean."""
    pairs = max((line.difference.pairs for line in comparison.lines if line.difference), default=0)
    said = [
        "Mean ± sample standard deviation over seeds; accuracy is the mean of the last tenth of the evaluated rounds.",
        "Spread by round: standard deviation of the accuracy over the last quarter of the evaluated rounds of a run.",
        f"Costs: to the first evaluated round with at least {percent(comparison.target)} % accuracy, median over seeds, "
        "a run that never gets there counted as endless; a forward pass alone is a third of a gradient.",
        "MB: megabytes up and down. Failed: searches of a run that found no step. All rounds: tuning and one run.",
    ]
    if pairs > 1:
        said.append(
            f"Difference to {comparison.reference}: mean over paired seeds with a 95 % t-interval; p: exact sign-flip test, "
            f"at least {2 / 2**pairs:.3g} with {pairs} seeds, not corrected for several comparisons."
        )
    if any(line.published for line in comparison.lines):
        said.append("Published numbers are printed as the study's file gives them.")
    return said


def rich_tables(comparison: Comparison) -> list[Table]:
    """For a terminal."""
    made = []
    for grid in grids(comparison):
        table = Table(
            title=grid.title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0)
        )
        for i, head in enumerate(grid.heads):
            cells = max(len(row[i]) for row in grid.rows)
            wrapped = fill(
                head, max(cells, *map(len, head.split()))
            )  # a head wider than its cells breaks between words
            table.add_column(wrapped, justify="right" if i else "left", no_wrap=not i)
        for row in grid.rows:
            table.add_row(*row)
        made.append(table)
    return made


def markdown(comparison: Comparison) -> str:
    """For a README: two tables and their notes."""
    parts = []
    for grid in grids(comparison):
        rule = ["---", *("---:" for _ in grid.heads[1:])]
        parts += [f"**{grid.title}**", "", *map(_barred, (grid.heads, rule, *grid.rows)), ""]
    return "\n".join([*parts, *(f"- {note}" for note in notes(comparison))]) + "\n"


def percent(value: float) -> str:
    """An accuracy of [0, 1] in per cent."""
    return NONE if isnan(value) else f"{100 * value:.2f}"


def spread(values: Spread, scale: float = 1.0, digits: int = 2) -> str:
    """Mean ± deviation; the mean alone for one seed."""
    if isnan(values.mean):
        return NONE
    mean = f"{scale * values.mean:.{digits}f}"
    return mean if isnan(values.std) else f"{mean} ± {scale * values.std:.{digits}f}"


def gap(found: Difference | None) -> str:
    """A difference in percentage points with its interval."""
    if found is None:
        return "reference"
    if isnan(found.mean):
        return NONE
    ends = "" if isnan(found.low) else f" [{100 * found.low:+.2f}, {100 * found.high:+.2f}]"
    return f"{100 * found.mean:+.2f}{ends}"


def _reached(comparison: Comparison) -> list[Column]:
    lines = comparison.lines
    finite = any(not isnan(line.train_loss.mean) for line in lines)
    keys = dict.fromkeys(key for line in lines for key in line.published)
    printed: list[Column] = [
        (f"published {key.replace('_', ' ')}", _published(key)) for key in keys
    ]
    return [
        (
            "seeds",
            lambda r: f"{r.seeds}, {r.unfinished} unfinished" if r.unfinished else f"{r.seeds}",
        ),
        ("accuracy %", lambda r: spread(r.accuracy, 100)),
        (
            "training loss",
            lambda r: (
                "not finite" if finite and isnan(r.train_loss.mean) else spread(r.train_loss, 1, 3)
            ),
        ),
        *printed,
    ]


def _sure(comparison: Comparison) -> list[Column]:
    return [
        (f"difference to {comparison.reference} [95 %]", lambda r: gap(r.difference)),
        (
            "p",
            lambda r: (
                NONE if r.difference is None or isnan(r.difference.p) else f"{r.difference.p:.3g}"
            ),
        ),
        ("spread by round", lambda r: percent(r.swing)),
    ]


def _other(comparison: Comparison) -> list[Column]:
    return [
        ("last iterate %", lambda r: spread(r.last, 100)),
        ("best %", lambda r: spread(r.best, 100)),
        ("best round", lambda r: NONE if isnan(r.best_round) else f"{r.best_round:.0f}"),
        ("held-out clients %", lambda r: spread(r.heldout, 100)),
    ]


def _cost(comparison: Comparison) -> list[Column]:
    return [
        (f"rounds to {percent(comparison.target)} %", lambda r: _count(r.reach.rounds)),
        ("gradients", lambda r: _count(r.reach.gradients)),
        ("MB", lambda r: _count(r.reach.megabytes)),
        ("got there", lambda r: f"{r.reached} of {r.seeds}"),
        ("trials a step", lambda r: f"{r.trials:.2f}" if r.trials else NONE),
        ("failed", lambda r: f"{r.failed:,.0f}" if r.trials else NONE),
        ("tuning rounds", lambda r: f"{r.tuning_rounds:,}"),
        ("all rounds", lambda r: f"{r.total_rounds:,}"),
    ]


def _grid(comparison: Comparison, title: str, columns: Sequence[Column]) -> Grid:
    cells = [(head, [cell(line) for line in comparison.lines]) for head, cell in columns]
    kept = [
        (head, column)
        for head, column in cells
        if any(c not in (NONE, "reference") for c in column)
    ]
    heads = ("method", *(head for head, _ in kept))
    rows = (
        (line.label, *(column[i] for _, column in kept)) for i, line in enumerate(comparison.lines)
    )
    return Grid(title, heads, tuple(rows))


def _published(key: str) -> Callable[[Line], str]:
    return lambda line: " ± ".join(f"{v:g}" for v in line.published.get(key, ())) or NONE


def _count(value: float) -> str:
    if value == inf:
        return "never"
    return f"{value:,.0f}" if value >= 10 or value == math.floor(value) else f"{value:.2g}"


def _barred(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
