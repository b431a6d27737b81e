"""A comparison as tables: for the terminal, for Markdown, and as cells for a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from textwrap import fill

from rich.table import Table
from rich.text import Text

from fedstep.analysis.compare import Comparison
from fedstep.analysis.grid import Grid
from fedstep.analysis.statistics import Spread
from fedstep.analysis.summary import MethodSummary
from fedstep.core.printable import printable
from fedstep.report.method_text import (
    count_text,
    failed_text,
    p_value_text,
    published_text,
    seeds_text,
    trials_text,
)
from fedstep.report.metric_text import (
    NONE,
    REFERENCE,
    metric_gap,
    metric_spread,
    metric_value,
    with_unit,
)
from fedstep.run.columns import MetricInfo

_COUNTS = "Failed: searches of a run that found no step. All rounds: tuning and one run."


@dataclass(frozen=True)
class TableColumn:
    """A head, and what a method has below it."""

    head: str
    cell: Callable[[MethodSummary], str]


def comparison_grids(comparison: Comparison) -> list[Grid]:
    """What was reached, how steadily, and what it cost; columns without a number are left out."""
    grids = [
        _grid(comparison, "What was reached", _reached(comparison)),
        _grid(comparison, "How sure, how steady", _sure(comparison)),
        _grid(comparison, "At other points", _other(comparison.metric)),
        _grid(comparison, "What it cost", _cost(comparison)),
    ]
    return [grid for grid in grids if len(grid.heads) > 1]


def comparison_notes(comparison: Comparison) -> list[str]:
    """What the columns mean."""
    # Nothing was scored: there is neither a final value nor a cost to reach one.
    if isnan(comparison.target):
        return [_COUNTS]
    pairs = 0
    for line in comparison.methods:
        if line.difference:
            pairs = max(pairs, line.difference.pairs)
    title = comparison.metric.title
    bound = "at most"
    if comparison.metric.higher_is_better:
        bound = "at least"
    final = f"{title} is the mean of the last tenth of the evaluated rounds."
    if any(line.seeds > 1 for line in comparison.methods):
        final = f"Mean ± sample standard deviation over seeds; {final}"
    # Not capitalize(), which would make small letters of the others.
    sentence = final[0].upper() + final[1:]
    notes = [
        sentence,
        f"Spread by round: standard deviation of the {title} "
        "over the last quarter of the evaluated rounds of a run.",
        f"Costs: to the first evaluated round with {bound} {_target(comparison)} "
        f"{title}, median over seeds, a run that never gets there counted as endless; "
        "a forward pass alone is a third of a gradient.",
        f"MB: megabytes up and down. {_COUNTS}",
    ]
    if pairs > 1:
        # Two of all ways to flip the signs are as far from 0 as the strongest result.
        smallest_p = 2 / 2**pairs
        notes.append(
            f"Difference to {comparison.reference}: mean over paired seeds with a 95 % t-interval; "
            f"p: exact sign-flip test, at least {smallest_p:.3g} with {pairs} seeds, "
            "not corrected for several comparisons."
        )
    if any(line.published for line in comparison.methods):
        notes.append("Published numbers are printed as the study's file gives them.")
    return notes


def rich_tables(comparison: Comparison) -> list[Table]:
    """For a terminal."""
    return [_rich_table(grid) for grid in comparison_grids(comparison)]


def markdown(comparison: Comparison) -> str:
    """For a README: the tables and their notes."""
    lines = []
    for grid in comparison_grids(comparison):
        # Names to the left, numbers to the right.
        numbers = len(grid.heads) - 1
        rule = ["---"] + ["---:"] * numbers
        lines.append(f"**{grid.title}**")
        # Without an empty line Markdown takes the table for a paragraph.
        lines.append("")
        for cells in (grid.heads, rule, *grid.rows):
            lines.append(_barred(cells))
        lines.append("")
    for note in comparison_notes(comparison):
        lines.append(f"- {note}")
    text = "\n".join(lines)
    return text + "\n"


def spread(values: Spread, scale: float = 1.0, digits: int = 2) -> str:
    """Mean ± deviation; the mean alone for one seed."""
    if isnan(values.mean):
        return NONE
    mean = f"{scale * values.mean:.{digits}f}"
    if isnan(values.std):
        return mean
    deviation = f"{scale * values.std:.{digits}f}"
    return f"{mean} ± {deviation}"


def _rich_table(grid: Grid) -> Table:
    table = Table(
        title=grid.title,
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for place, head in enumerate(grid.heads):
        widest_cell = max(len(row[place]) for row in grid.rows)
        widest_word = max(len(word) for word in head.split())
        # A head wider than its cells breaks between words.
        width = max(widest_cell, widest_word)
        # Text: labels may hold square brackets, which rich would take for its own.
        wrapped = Text(fill(printable(head), width))
        if place == 0:
            table.add_column(wrapped, justify="left", no_wrap=True)
        else:
            table.add_column(wrapped, justify="right")
    for row in grid.rows:
        cells = [Text(printable(cell)) for cell in row]
        table.add_row(*cells)
    return table


def _reached(comparison: Comparison) -> list[TableColumn]:
    lines = comparison.methods
    metric = comparison.metric
    loss_known = any(not isnan(line.train_loss.mean) for line in lines)
    published = []
    for key in _published_keys(lines):
        head = f"published {key.replace('_', ' ')}"
        published.append(TableColumn(head, published_text(key)))

    def loss(line: MethodSummary) -> str:
        # A dash would say that nothing was measured.
        if loss_known and isnan(line.train_loss.mean):
            return "not finite"
        return spread(line.train_loss, scale=1, digits=3)

    return [
        TableColumn("seeds", seeds_text),
        TableColumn(
            with_unit(metric.title, metric),
            lambda line: metric_spread(line.score, metric),
        ),
        TableColumn("training loss", loss),
        *published,
    ]


def _published_keys(lines: Sequence[MethodSummary]) -> list[str]:
    """In the order in which the study's file names them."""
    keys: list[str] = []
    for line in lines:
        for key in line.published:
            if key not in keys:
                keys.append(key)
    return keys


def _sure(comparison: Comparison) -> list[TableColumn]:
    metric = comparison.metric
    return [
        TableColumn(
            f"difference to {comparison.reference} [95 %]",
            lambda line: metric_gap(line.difference, metric),
        ),
        TableColumn("p", p_value_text),
        TableColumn(
            "spread by round",
            lambda line: metric_value(line.swing, metric),
        ),
    ]


def _other(metric: MetricInfo) -> list[TableColumn]:
    return [
        TableColumn(
            with_unit("last iterate", metric),
            lambda line: metric_spread(line.last, metric),
        ),
        # The best round is chosen by the test data: it stands beside the final value, not for it.
        TableColumn(
            with_unit("best", metric),
            lambda line: metric_spread(line.best, metric),
        ),
        TableColumn(
            "best round",
            lambda line: count_text(line.best_round),
        ),
        TableColumn(
            with_unit("held-out clients", metric),
            lambda line: metric_spread(line.heldout, metric),
        ),
    ]


def _cost(comparison: Comparison) -> list[TableColumn]:
    columns = [
        TableColumn("trials a step", trials_text),
        TableColumn("failed", failed_text),
        # Tuning is part of the price: a method that needs none has spent less.
        TableColumn(
            "tuning rounds",
            lambda line: f"{line.tuning_rounds:,}",
        ),
        TableColumn(
            "all rounds",
            lambda line: f"{line.total_rounds:,}",
        ),
    ]
    # Without a score there is no target to reach.
    if isnan(comparison.target):
        return columns
    return [
        TableColumn(
            f"rounds to {_target(comparison)}",
            lambda line: count_text(line.reach.rounds),
        ),
        TableColumn(
            "gradients",
            lambda line: count_text(line.reach.gradients),
        ),
        TableColumn(
            "MB",
            lambda line: count_text(line.reach.megabytes),
        ),
        TableColumn(
            "got there",
            lambda line: f"{line.reached} of {line.seeds}",
        ),
        *columns,
    ]


def _grid(comparison: Comparison, title: str, columns: Sequence[TableColumn]) -> Grid:
    heads = ["method"]
    filled = []
    for column in columns:
        cells = [column.cell(line) for line in comparison.methods]
        # A column of dashes tells nobody anything.
        if any(cell not in (NONE, REFERENCE) for cell in cells):
            heads.append(column.head)
            filled.append(cells)
    labels = [line.label for line in comparison.methods]
    rows = tuple(zip(labels, *filled, strict=True))
    return Grid(title, tuple(heads), rows)


def _target(comparison: Comparison) -> str:
    metric = comparison.metric
    value = metric_value(comparison.target, metric)
    return with_unit(value, metric)


def _barred(cells: Sequence[str]) -> str:
    # A bar inside a label would begin a new cell.
    escaped = [cell.replace("|", "\\|") for cell in cells]
    joined = " | ".join(escaped)
    return f"| {joined} |"
