"""What the grids of the rivals saw: a table of docs/evidence.md."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from evidence_curves import TABLES, Table
from fedstep.analysis.results import load_results
from fedstep.study.choices import Choice
from fedstep.study.plan import Method
from pages import RESULTS


def grid_table() -> str:
    """Every method that was tuned: its points, what they scored, and whether the best is inside."""
    lines = [
        "| study | method | settings | chosen | at the edge | accuracy in % by point, on what it was chosen by |",
        "|---|---|---|---|---|---|",
    ]
    for table in TABLES:
        lines += study_lines(table)
    return "\n".join(lines) + "\n"


def study_lines(table: Table) -> list[str]:
    """The tuned methods of a task."""
    results = load_results(RESULTS / table.folder)
    lines = []
    for method in results.study.methods:
        choice = results.choices.get(method.label)
        if choice is not None and choice.scores:
            lines.append(grid_line(table.folder, method, choice))
    return lines


def grid_line(study: str, method: Method, choice: Choice) -> str:
    """A method."""
    points = list(product(*method.grid.values()))
    by_point = dict(zip(points, method.candidates(), strict=True))
    chosen = next(point for point, spec in by_point.items() if spec == choice.spec)
    cells = []
    for point, spec in by_point.items():
        words = f"{point_text(point)}: {score_text(choice.scores[spec])}"
        if point == chosen:
            words = f"**{words}**"
        cells.append(words)
    line = [
        study,
        method.label,
        ", ".join(method.grid),
        point_text(chosen),
        edge_text(method, chosen),
        "; ".join(cells),
    ]
    return "| " + " | ".join(line) + " |"


def edge_text(method: Method, chosen: Sequence[float]) -> str:
    """The settings whose best value is the least or the largest of their grid."""
    at_edge = []
    for value, (name, values) in zip(chosen, method.grid.items(), strict=True):
        if value in (min(values), max(values)):
            at_edge.append(name)
    return ", ".join(at_edge) or "no"


def point_text(point: Sequence[float]) -> str:
    """The values of the settings, in their order."""
    return ", ".join(f"{value:g}" for value in point)


def score_text(score: float | None) -> str:
    """In per cent; a point that diverged has none."""
    if score is None:
        return "diverged"
    return f"{100 * score:.1f}"
