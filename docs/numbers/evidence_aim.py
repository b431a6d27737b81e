"""The default against the best rival of every task: tables of docs/evidence.md, paper.md and the README."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

from evidence_costs import cost_cells, difference_text, has_rivals, standing
from evidence_curves import KNOWN, OURS, REMEMBERING, TABLES, Table, in_percent, spread_text
from fedstep.analysis.curves import metric_column
from fedstep.analysis.group import Group, primary_metric
from fedstep.analysis.statistics import Spread

QUARTERS = (1, 2, 3, 4)


def tasks_of(label: str) -> list[Table]:
    """The tasks on which a method of ours can be held against somebody."""
    return [table for table in TABLES if has_rivals(table) and label in standing(table).groups]


def aim_table(label: str = OURS) -> str:
    """The aim, task by task, and whether it holds."""
    lines = [
        f"| task | {label} | best rival | difference [95 %], seeds | "
        "at or above, or within one deviation | "
        "rounds to the rival's end | at most half | with tuning | at most a tenth |",
        "|---" * 9 + "|",
    ]
    lines += [aim_line(table, label) for table in tasks_of(label)]
    return "\n".join(lines) + "\n"


def aim_line(table: Table, label: str) -> str:
    """A task."""
    found = standing(table)
    ours = found.of(label)
    gap = ours.difference
    assert gap is not None
    deviation = max(ours.score.std, found.rival.score.std)
    # one seed has no deviation: only "at or above" can be said
    allowed = 0.0 if math.isnan(deviation) else deviation
    rounds = table.rounds[-1]
    group = found.groups[found.rival.label]
    reach = ours.reach.rounds
    with_tuning = rounds + group.choice.rounds
    reach_text = cost_cells(found.groups[label], reach, 0)[0]
    total = f"{reach_text} of {with_tuning}"
    tenth = yes_no(reach <= with_tuning / 10)
    if found.rival.label in KNOWN:
        total = "grid not counted"
        tenth = "-"
    cells = [
        table.name,
        spread_text(in_percent(ours.score)),
        f"{found.rival.label}: {spread_text(in_percent(found.rival.score))}",
        f"{difference_text(gap)}, {gap.pairs}",
        yes_no(gap.mean >= -allowed),
        f"{reach_text} of {rounds}",
        yes_no(reach <= rounds / 2),
        total,
        tenth,
    ]
    return "| " + " | ".join(cells) + " |"


def lead_table(label: str = OURS) -> str:
    """When a method of ours has what the best rival has after each quarter of its rounds."""
    heads = [f"{quarter} / 4 of its rounds" for quarter in QUARTERS]
    lines = [
        "| task | best rival | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 2) + "|",
    ]
    for table in tasks_of(label):
        found = standing(table)
        ours = mean_accuracies(found.groups[label])
        theirs = mean_accuracies(found.groups[found.rival.label])
        cells = [table.name, found.rival.label]
        for quarter in QUARTERS:
            at = max(number for number in theirs if number <= table.rounds[-1] * quarter // 4)
            first = next((number for number in ours if ours[number] >= theirs[at]), math.inf)
            reached = "never" if math.isinf(first) else f"{first:.0f}"
            cells.append(f"{theirs[at]:.1f} % at {at:.0f}: {reached}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def mean_accuracies(group: Group) -> dict[float, float]:
    """Over seeds, by evaluated round."""
    column = metric_column(primary_metric([group]))
    numbers = group.runs[0].rounds
    by_round = zip(*(column(run) for run in group.runs), strict=True)
    means = {number: fmean(values) for number, values in zip(numbers, by_round, strict=True)}
    return {number: value for number, value in means.items() if not math.isnan(value)}


def short_table() -> str:
    """The tasks in one line each, for the README."""
    lines = [
        "| task | FedPace, nothing set | best rival | difference [95 %], seeds | "
        "rounds to the rival's final accuracy | FedPace-recall; rounds |",
        "|---" * 6 + "|",
    ]
    lines += [short_line(table) for table in tasks_of(OURS)]
    return "\n".join(lines) + "\n"


def short_line(table: Table) -> str:
    """A task."""
    found = standing(table)
    ours = found.ours
    assert ours.difference is not None
    reach = cost_cells(found.groups[OURS], ours.reach.rounds, 0)[0]
    rounds = f"{reach}; the rival {table.rounds[-1]}"
    tuning = found.groups[found.rival.label].choice.rounds
    if tuning:
        rounds += f" and {tuning} of tuning"
    cells = [
        table.name,
        spread_text(in_percent(ours.score)),
        f"{found.rival.label}: {spread_text(in_percent(found.rival.score))}",
        f"{difference_text(ours.difference)}, {ours.difference.pairs}",
        rounds,
        remembering_text(table),
    ]
    return "| " + " | ".join(cells) + " |"


def remembering_text(table: Table) -> str:
    """What FedPace with clients that remember ends at, and when it is as good as the rival."""
    found = standing(table)
    if REMEMBERING not in found.groups:
        return "not run"
    method = found.of(REMEMBERING)
    reach = cost_cells(found.groups[REMEMBERING], method.reach.rounds, 0)[0]
    return f"{spread_text(in_percent(method.score))}; {reach}"


def printed_table() -> str:
    """The paper's methods as printed, on every task."""
    labels = ("FedSLS", "FedExpSLS", "FedAvg")
    lines = [
        "| task | FedSLS | FedExpSLS | FedAvg, tuned | best rival | FedPace |",
        "|---" * 6 + "|",
    ]
    for table in tasks_of(OURS):
        found = standing(table)
        scores = {method.label: method.score for method in found.methods}
        cells = [table.name]
        for label in labels:
            cells.append(score_text(scores, label))
        cells.append(f"{found.rival.label}: {score_text(scores, found.rival.label)}")
        cells.append(score_text(scores, OURS))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def score_text(scores: Mapping[str, Spread], label: str) -> str:
    """What a method ends at, in per cent."""
    if label not in scores:
        return "not run"
    return spread_text(in_percent(scores[label]))


def yes_no(holds: bool) -> str:
    """A miss is to be seen."""
    return "yes" if holds else "**no**"
