"""The default against the best rival of every task: tables of docs/evidence.md and the README."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

from evidence_costs import Standing, cost_cells, difference_text, has_rivals, rivals_of, standing
from evidence_curves import KNOWN, OURS, REMEMBERING, TABLES, Table, in_percent, spread_text
from fedstep.analysis.curves import metric_column
from fedstep.analysis.group import Group, primary_metric
from fedstep.analysis.statistics import difference
from fedstep.analysis.summary import by_seed

QUARTERS = (1, 2, 3, 4)
CHOSEN_ON = 0  # the seed whose test accuracies were in view when the default was put together


def tasks_of(label: str) -> list[Table]:
    """The tasks on which a method of ours can be held against somebody."""
    return [table for table in TABLES if has_rivals(table) and label in standing(table).groups]


def aim_table(label: str = OURS) -> str:
    """The aim, task by task, and whether it holds."""
    lines = [
        f"| task | {label} | best rival | difference [95 %], seeds | without seed 0 | "
        "at or above, or within one deviation | rounds to the rival's final accuracy | "
        "seeds that get there | the rival itself | at most half | with tuning | "
        "at most a tenth |",
        "|---" * 12 + "|",
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
        lead_on_other_seeds(found, label),
        yes_no(gap.mean >= -allowed),
        f"{reach_text} of {rounds}",
        f"{ours.reached} of {ours.seeds}",
        cost_cells(group, found.rival.reach.rounds, 0)[0],
        yes_no(reach <= rounds / 2),
        total,
        tenth,
    ]
    return "| " + " | ".join(cells) + " |"


def lead_on_other_seeds(found: Standing, label: str) -> str:
    """The mean difference over the other seeds, in points."""
    name = primary_metric([found.groups[label]]).name
    finals = [
        by_seed(found.groups[each], lambda run: run.final(name))
        for each in (label, found.rival.label)
    ]
    for scores in finals:
        scores.pop(CHOSEN_ON, None)
    ours, theirs = finals
    return f"{100 * difference(ours, theirs).mean:+.1f}"


def lead_table(label: str = OURS) -> str:
    """When a method of ours has what the best rival of that round has, quarter by quarter."""
    heads = [f"{quarter} / 4 of the rounds" for quarter in QUARTERS]
    lines = [
        "| task | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 1) + "|",
    ]
    for table in tasks_of(label):
        groups = standing(table).groups
        ours = mean_accuracies(groups[label])
        theirs = rivals_of(list(groups.values()))
        rivals = {group.label: mean_accuracies(group) for group in theirs}
        cells = [table.name]
        for quarter in QUARTERS:
            cells.append(lead_cell(ours, rivals, table.rounds[-1] * quarter // 4))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def lead_cell(
    ours: Mapping[float, float],
    rivals: Mapping[str, Mapping[float, float]],
    round_number: int,
) -> str:
    """Who is best of the rivals in a round, what that is, and the round in which ours has it."""
    at = max(number for number in ours if number <= round_number)
    # who has diverged on a seed has no mean there
    best = max(rivals, key=lambda each: rivals[each].get(at, -math.inf))
    accuracy = rivals[best][at]
    first = next((number for number in ours if ours[number] >= accuracy), math.inf)
    reached = "never" if math.isinf(first) else f"{first:.0f}"
    return f"{best} {accuracy:.1f} at {at:.0f}: {reached}"


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


def paper_table() -> str:
    """The paper's methods on every task, for the README."""
    lines = [
        "| task | FedSLS | FedExpSLS | FedAvg, tuned | best rival | FedPace |",
        "|---" * 6 + "|",
    ]
    for table in tasks_of(OURS):
        found = standing(table)
        labels = ("FedSLS", "FedExpSLS", "FedAvg", found.rival.label, OURS)
        cells = [score_text(found, label) for label in labels]
        cells[3] = f"{found.rival.label}: {cells[3]}"
        lines.append(f"| {table.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def score_text(found: Standing, label: str) -> str:
    """What a method ends at, in per cent, and of how many seeds where some are missing."""
    if label not in found.groups:
        return "not run"
    method = found.of(label)
    text = spread_text(in_percent(method.score))
    if method.seeds < found.ours.seeds:
        text += f" ({method.seeds} of {found.ours.seeds} seeds)"
    return text


def yes_no(holds: bool) -> str:
    """A miss is to be seen."""
    return "yes" if holds else "**no**"
