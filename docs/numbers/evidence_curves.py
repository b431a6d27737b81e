"""The tasks of docs/evidence.md, and their accuracies by round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from fedstep.analysis.curves import metric_column
from fedstep.analysis.group import Group, primary_metric
from fedstep.analysis.results import load_results
from fedstep.analysis.statistics import Spread
from fedstep.run.history import Run
from pages import RESULTS

OURS = "FedPace"
REMEMBERING = "FedPace-recall"  # ours as well, with clients that keep a vector
BOTH = (OURS, REMEMBERING)
# Methods at steps that no grid of their own has found, and which one has.
KNOWN = {
    "FedAvg, step 0.1": "an earlier grid",
    "FedAdam, steps 0.1 and 0.01": "an earlier grid",
    "FedAvg, step 3": "an earlier grid",
    "FedAvg, a third of the step": "the grid of FedAvg",
    "SCAFFOLD, a third of the step": "the grid of SCAFFOLD",
}
# a tuned rival that ships an average of its models, as the default does
AVERAGED = ", averaged"
FIRST_STEP = ", first step "  # a line search at another first step: docs/paper-results.md


@dataclass(frozen=True)
class Table:
    """A task, and the rounds at which its methods are compared."""

    name: str
    folder: str  # of its results
    rounds: tuple[int, ...]


TABLES = (
    Table("FEMNIST", "femnist-pace", (25, 50, 100, 200, 500)),
    Table("FEMNIST, CNN", "femnist-cnn", (20, 60, 120, 200)),
    Table("CIFAR-10", "cifar10-lenet", (20, 60, 120, 200)),
    Table("CIFAR-100", "cifar100-lenet", (20, 60, 120, 200)),
    Table("Shakespeare", "shakespeare-small", (20, 60, 120, 200)),
)


@cache
def groups_of(table: Table) -> list[Group]:
    """The methods of a task; none where there are no results yet."""
    home = RESULTS / table.folder
    if not home.exists():
        return []
    return list(load_results(home).groups)


@cache
def whole_groups(table: Table) -> list[Group]:
    """The methods of a task with the runs that reached the last round, as they were published."""
    return [
        group
        for group in every_whole_group(table)
        if not group.label.endswith(AVERAGED) and FIRST_STEP not in group.label
    ]


@cache
def every_whole_group(table: Table) -> list[Group]:
    """Also the rivals that ship an average of their models."""
    groups: list[Group] = []
    for group in groups_of(table):
        whole = _whole(group, table.rounds[-1])
        if whole.runs:
            groups.append(whole)
    tuned = {group.choice.spec for group in groups if group.choice.rounds}
    # a step that tuning has found again is not shown twice
    return [group for group in groups if group.label not in KNOWN or group.choice.spec not in tuned]


def _whole(group: Group, rounds: int) -> Group:
    places = [place for place, run in enumerate(group.runs) if run.rounds[-1] >= rounds]
    return group.of_places(places)


def value_at(run: Run, column: Sequence[float], at: int) -> float:
    """The last value that was evaluated in or before a round; NaN where the run ended before."""
    if run.rounds[-1] < at:
        return math.nan
    seen = [value for number, value in zip(run.rounds, column, strict=True) if number <= at]
    evaluated = [value for value in seen if not math.isnan(value)]
    return evaluated[-1] if evaluated else math.nan


def cell(values: Sequence[float], digits: int = 1) -> str:
    """Mean and deviation over seeds; empty where nothing is known."""
    return spread_text(Spread.of([value for value in values if not math.isnan(value)]), digits)


def spread_text(spread: Spread, digits: int = 1) -> str:
    """Mean and deviation; the mean alone of one seed."""
    if math.isnan(spread.mean):
        return ""
    if math.isnan(spread.std):
        return f"{spread.mean:.{digits}f}"
    return f"{spread.mean:.{digits}f} ± {spread.std:.{digits}f}"


def in_percent(spread: Spread) -> Spread:
    """The same in per cent."""
    return Spread(100 * spread.mean, 100 * spread.std)


def line(group: Group, rounds: Sequence[int]) -> str:
    """A method at those rounds, and what it cost up to the last of them."""
    column = metric_column(primary_metric([group]))
    cells = [f"| {group.label}", str(len(group.runs))]
    for at in rounds:
        cells.append(cell([value_at(run, column(run), at) for run in group.runs]))
    cells.append(cell([run.gradients[-1] / 1000 for run in group.runs], 0))
    cells.append(cell([run.bytes[-1] / 1e6 for run in group.runs], 0))
    cells.append(tuning_text(group))
    cells.append(published_text(group))
    return " | ".join(cells) + " |"


def tuning_text(group: Group) -> str:
    """The rounds that were spent on a method's grid."""
    if group.label in KNOWN:
        return KNOWN[group.label]
    if group.label.endswith(AVERAGED):
        return f"the grid of {group.label.removesuffix(AVERAGED)}"
    return str(group.choice.rounds or 0)


def published_text(group: Group) -> str:
    """What the authors' later program had, in their setting."""
    values = group.published.get("later_accuracy", ())
    return " ± ".join(f"{value:.2f}" for value in values)


def curve_table(table: Table) -> str:
    """Accuracies by round, in Markdown."""
    header = " | ".join(str(number) for number in table.rounds)
    lines = [
        f"| method | seeds | {header} | gradients / 1,000 | MB | rounds of tuning | theirs |",
        "|---|---|" + "---|" * (len(table.rounds) + 4),
    ]
    lines += [line(group, table.rounds) for group in whole_groups(table)]
    return "\n".join(without_empty_columns(lines)) + "\n"


def without_empty_columns(lines: list[str]) -> list[str]:
    """A table without the columns in which nothing stands."""
    rows = [text.strip("|").split("|") for text in lines]
    kept = []
    for place in range(len(rows[0])):
        # below the header and its rule
        if any(row[place].strip() for row in rows[2:]):
            kept.append(place)
    return ["|" + "|".join(row[place] for place in kept) + "|" for row in rows]
