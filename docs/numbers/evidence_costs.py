"""How far the best rival of a task is, and what it costs to get there: tables of docs/evidence.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import median

from evidence_curves import (
    BOTH,
    KNOWN,
    OURS,
    Table,
    in_percent,
    spread_text,
    whole_groups,
    without_empty_columns,
)
from fedstep.analysis.client_spread import ClientScores, method_spread, read_client_scores
from fedstep.analysis.compare import compare_groups
from fedstep.analysis.group import Group
from fedstep.analysis.statistics import Difference, Spread
from fedstep.analysis.summary import MethodSummary
from fedstep.run.history import Run
from pages import RESULTS


@dataclass(frozen=True)
class Standing:
    """The methods of a task held against the best of those that are not ours."""

    rival: MethodSummary
    methods: tuple[MethodSummary, ...]
    groups: dict[str, Group]  # by label

    @property
    def ours(self) -> MethodSummary:
        return self.of(OURS)

    def of(self, label: str) -> MethodSummary:
        """A method by its label."""
        return next(method for method in self.methods if method.label == label)


def has_rivals(table: Table) -> bool:
    """Whether there is somebody to be held against."""
    labels = {group.label for group in whole_groups(table)}
    return OURS in labels and bool(labels.difference(BOTH))


@cache
def standing(table: Table) -> Standing:
    """The target is the final accuracy of the best rival: the mean of its last evaluations."""
    groups = whole_groups(table)
    rounds = table.rounds[-1]
    rivals = compare_groups(rivals_of(groups), rounds)
    best = max(rivals.methods, key=lambda method: method.score.mean)
    compared = compare_groups(groups, rounds, best.score.mean, best.label)
    by_label = {group.label: group for group in groups}
    rival = next(method for method in compared.methods if method.label == best.label)
    return Standing(rival, compared.methods, by_label)


def rivals_of(groups: Sequence[Group]) -> list[Group]:
    """Methods that are not ours, with as many seeds as any: a few seeds are no measure."""
    seeds = max(len(group.runs) for group in groups)
    return [group for group in groups if group.label not in BOTH and len(group.runs) == seeds]


def cost_table(table: Table) -> str:
    """What every method spent until it was as good as the best rival in its end."""
    found = standing(table)
    target = 100 * found.rival.score.mean
    lines = [
        f"| method | final | difference to {found.rival.label} [95 %] | rounds to {target:.1f} % | "
        "with tuning | gradients / 1,000 | with tuning | MB | with tuning | held-out clients | "
        "worst tenth | training loss | rounds to that of the rival |",
        "|---" * 13 + "|",
    ]
    lines += [cost_line(method, found, table) for method in found.methods]
    # on CIFAR and Shakespeare nobody is held out, and of some tasks no client was scored
    return "\n".join(without_empty_columns(lines)) + "\n"


def worst_tenth(group: Group, table: Table) -> Spread:
    """Of the clients of a method's runs, as `fedstep clients` has noted it."""
    known = client_scores(group, table)
    if not known:
        return Spread.of([])
    return method_spread(group.label, known).worst


def client_scores(group: Group, table: Table) -> list[ClientScores]:
    """Of the runs whose models were kept."""
    scores = read_client_scores(RESULTS / table.folder)
    return [scores[spec["digest"]] for spec in group.specs if spec["digest"] in scores]


def worst_text(group: Group, table: Table) -> str:
    """The worst tenth, and of how many seeds where it is not known of all."""
    text = spread_text(in_percent(worst_tenth(group, table)))
    count = len(client_scores(group, table))
    if 0 < count < len(group.runs):
        return f"{text} ({count} of {len(group.runs)} seeds)"
    return text


def cost_line(method: MethodSummary, found: Standing, table: Table) -> str:
    """A method's way to the target."""
    group = found.groups[method.label]
    run = group.runs[0]
    tuning = group.choice.rounds
    # of a grid point: what a round of the method costs
    gradients_a_round = run.gradients[-1] / run.rounds[-1] / 1000
    megabytes_a_round = run.bytes[-1] / run.rounds[-1] / 1e6
    reach = method.reach
    cells = [
        method.label,
        spread_text(in_percent(method.score)),
        difference_text(method.difference),
        *cost_cells(group, reach.rounds, tuning),
        *cost_cells(group, reach.gradients / 1000, tuning * gradients_a_round),
        *cost_cells(group, reach.megabytes, tuning * megabytes_a_round),
        spread_text(in_percent(method.heldout)),
        worst_text(group, table),
        spread_text(method.train_loss, 3),
        loss_reach_text(group, found.rival.train_loss.mean),
    ]
    return "| " + " | ".join(cells) + " |"


def loss_reach_text(group: Group, target: float) -> str:
    """The first evaluated round with the training loss that the rival has in its end, median over seeds."""
    # on CIFAR and Shakespeare the loss over all clients was not evaluated
    if math.isnan(target):
        return ""
    reached = median_reach(group, partial(first_round_below, target=target))
    return "never" if math.isinf(reached) else f"{reached:.0f}"


def median_reach(group: Group, reached: Callable[[Run], float]) -> float:
    """Over seeds, where a run that never gets there counts as endless."""
    return median(reached(run) for run in group.runs)


def first_round_below(run: Run, target: float) -> float:
    """Infinite where a run never gets there."""
    losses = zip(run.rounds, run.column("train_loss"), strict=True)
    return next((float(number) for number, loss in losses if loss <= target), math.inf)


def cost_cells(group: Group, cost: float, tuning: float) -> tuple[str, str]:
    """Without and with tuning."""
    if math.isinf(cost):
        return "never", "never"
    with_tuning = f"{cost + tuning:.0f}"
    if group.label in KNOWN:
        with_tuning = f"{cost:.0f} + grid"
    return f"{cost:.0f}", with_tuning


def difference_text(gap: Difference | None) -> str:
    """A paired difference in points, and its interval."""
    if gap is None:
        return "reference"
    mean = f"{100 * gap.mean:+.1f}"
    # of one seed there is no interval
    if math.isnan(gap.low):
        return mean
    return f"{mean} [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
