"""Is it the average? Rivals and the default at their last models and at the same average: a table of docs/evidence.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evidence_costs import difference_text
from evidence_curves import AVERAGED, OURS, TABLES, every_whole_group, in_percent, spread_text
from fedstep.analysis.group import Group, primary_metric
from fedstep.analysis.statistics import difference
from fedstep.analysis.summary import by_seed, spread_of
from fedstep.run.columns import LAST
from fedstep.run.history import Run

Score = Callable[[Run], float]


def readout_table() -> str:
    """Task by task: what a run has at its last model, and what at the average of its models."""
    lines = [
        "| task | method | last model | average | FedPace less it, both last | both averaged |",
        "|---" * 6 + "|",
    ]
    for table in TABLES:
        groups = every_whole_group(table)
        averaged = [group for group in groups if group.label.endswith(AVERAGED)]
        if averaged:
            ours = next(group for group in groups if group.label == OURS)
            lines += _lines(table.name, ours, averaged)
    return "\n".join(lines) + "\n"


def _lines(task: str, ours: Group, rivals: Sequence[Group]) -> list[str]:
    name = primary_metric([ours]).name
    at_last = _final(LAST + name)
    at_average = _final(name)
    lines = []
    for group in (ours, *rivals):
        cells = [
            task,
            group.label.removesuffix(AVERAGED),
            _spread(group, at_last),
            _spread(group, at_average),
            _lead(ours, group, at_last),
            _lead(ours, group, at_average),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _final(column: str) -> Score:
    return lambda run: run.final(column)


def _spread(group: Group, score: Score) -> str:
    return spread_text(in_percent(spread_of(group, score)))


def _lead(ours: Group, group: Group, score: Score) -> str:
    """Ours less theirs in points, seed by seed."""
    if group is ours:
        return ""
    return difference_text(difference(by_seed(ours, score), by_seed(group, score)))
