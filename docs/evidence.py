"""The tables of docs/evidence.md, made from the committed results.

    python docs/evidence.py

A test makes them anew and compares: no number of the page is written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedstep.analysis.curves import metric_column
from fedstep.analysis.results import Group, load_results, primary_metric
from fedstep.analysis.statistics import Spread
from fedstep.run.history import Run

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "evidence.md"
BEGIN = "<!-- {name}: made by python docs/evidence.py -->\n\n"
END = "\n<!-- until here -->"


@dataclass(frozen=True)
class Part:
    """Methods of one folder of results; no labels: all of them."""

    folder: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A task, and the rounds at which its methods are compared."""

    name: str
    parts: tuple[Part, ...]
    rounds: tuple[int, ...]


TABLES = (
    Table(
        "FEMNIST",
        (
            Part("femnist-pace"),
            Part("femnist-logreg", ("FedAvg", "FedAdam", "FedExP", "FedSLS", "FedExpSLS")),
        ),
        (25, 50, 100, 200, 500),
    ),
    Table("CIFAR-10", (Part("cifar10-lenet"),), (20, 60, 120, 200)),
    Table("Shakespeare", (Part("shakespeare-small"),), (20, 60, 120, 200)),
)


def groups_of(part: Part) -> list[Group]:
    """The methods of a folder that are asked for; none where there is no folder yet."""
    home = ROOT / "results" / part.folder
    if not home.exists():
        return []
    groups = load_results(home).groups
    return [group for group in groups if not part.labels or group.label in part.labels]


def value_at(run: Run, column: Sequence[float], at: int) -> float:
    """The last value that was evaluated in or before a round; NaN where the run ended before."""
    if run.rounds[-1] < at:
        return math.nan
    seen = [value for number, value in zip(run.rounds, column, strict=True) if number <= at]
    evaluated = [value for value in seen if not math.isnan(value)]
    return evaluated[-1] if evaluated else math.nan


def cell(values: Sequence[float], digits: int = 1) -> str:
    """Mean and deviation over seeds; empty where nothing is known."""
    spread = Spread.of([value for value in values if not math.isnan(value)])
    if math.isnan(spread.mean):
        return ""
    if math.isnan(spread.std):
        return f"{spread.mean:.{digits}f}"
    return f"{spread.mean:.{digits}f} ± {spread.std:.{digits}f}"


def line(group: Group, rounds: Sequence[int]) -> str:
    """A method at those rounds, and what it cost up to the last of them."""
    column = metric_column(primary_metric([group]))
    whole = [run for run in group.runs if run.rounds[-1] >= rounds[-1]]
    cells = []
    for at in rounds:
        cells.append(cell([value_at(run, column(run), at) for run in whole]))
    gradients = cell([run.gradients[-1] / 1000 for run in whole], 0)
    traffic = cell([run.bytes[-1] / 1e6 for run in whole], 0)
    tuning = str(group.choice.rounds or 0)
    return (
        " | ".join([f"| {group.label}", str(len(whole)), *cells, gradients, traffic, tuning]) + " |"
    )


def table_of(table: Table) -> str:
    """The table in Markdown."""
    header = " | ".join(str(number) for number in table.rounds)
    lines = [
        f"| method | seeds | {header} | gradients / 1,000 | MB | rounds of tuning |",
        "|---|---|" + "---|" * (len(table.rounds) + 3),
    ]
    for part in table.parts:
        for group in groups_of(part):
            if any(run.rounds[-1] >= table.rounds[-1] for run in group.runs):
                lines.append(line(group, table.rounds))
    return "\n".join(lines) + "\n"


def made() -> str:
    """The page with the tables of the results as they are."""
    text = PAGE.read_text()
    for table in TABLES:
        begin = BEGIN.format(name=table.name)
        if begin not in text:
            continue
        before, rest = text.split(begin)
        after = rest[rest.index(END) :]
        text = before + begin + table_of(table) + after
    return text


if __name__ == "__main__":
    PAGE.write_text(made())
