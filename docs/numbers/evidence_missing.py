"""Which runs of the studies are not among the committed results: a table of docs/evidence.md."""

from __future__ import annotations

from evidence_curves import TABLES, Table, every_whole_group, groups_of
from fedstep.analysis.results import load_results
from fedstep.study.plan import Study
from pages import RESULTS


def missing_table() -> str:
    """The methods of every task that have fewer seeds than their study asks for, or none."""
    lines = [
        "| task | study | not all seeds yet | not run yet |",
        "|---|---|---|---|",
    ]
    for table in TABLES:
        study = load_results(RESULTS / table.folder).study
        cells = [table.name, f"`{table.folder}`", *missing_cells(table, study)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def missing_cells(table: Table, study: Study) -> tuple[str, str]:
    """Methods with some seeds, and methods without one."""
    finished = {group.label: len(group.runs) for group in every_whole_group(table)}
    wanted = len(study.seeds)
    some = []
    none = []
    for method in study.methods:
        count = finished.get(method.label, 0)
        if count == 0 and not _is_left_out(table, method.label):
            none.append(method.label)
        elif 0 < count < wanted:
            some.append(f"{method.label}: {count} of {wanted}")
    return "; ".join(some) or "-", "; ".join(none) or "-"


def _is_left_out(table: Table, label: str) -> bool:
    """Whether there are runs that no table shows: a step that tuning has found again."""
    return any(group.label == label for group in groups_of(table))
