"""How long searches last, how often they are made and fail: a figure and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean
from typing import Any

from answers_studies import COLOUR_ORDER, Row, colour_of, mean_curve, save, shared_legend
from evidence_curves import OURS, REMEMBERING, TABLES, whole_groups
from fedstep.analysis.curves import searches as does_search
from fedstep.analysis.group import Group
from fedstep.report.figures import pyplot

WINDOW = 10  # rounds that a point is the mean of
# models, by the name of their task
MODELS = {
    "FEMNIST": "softmax regression, FEMNIST",
    "FEMNIST, CNN": "CNN, FEMNIST",
    "CIFAR-10": "LeNet, CIFAR-10",
    "CIFAR-100": "LeNet, CIFAR-100",
    "Shakespeare": "LSTM, Shakespeare",
}
DIGITS = "four hidden layers, digits"


@dataclass(frozen=True)
class Searches:
    """What the searches of a method cost with a model."""

    model: str
    method: str
    trials: Sequence[float]  # of a searched step by round, mean over seeds: 1 is the first guess
    failed: int  # searches of all seeds that ended without an accepted step
    searched: float = nan  # share of the steps; NaN where it was not recorded

    def means(self) -> list[float]:
        """Trials in every WINDOW rounds."""
        count = len(self.trials) // WINDOW
        return [fmean(self.trials[WINDOW * k : WINDOW * (k + 1)]) for k in range(count)]

    @property
    def held(self) -> float:
        """The share of first trials that held, at least.

        Trials are whole numbers from 1 on: with a share p of ones their mean is 2 - p or more.
        """
        return max(0.0, 2 - fmean(self.trials))


def searches(rows: Sequence[Row]) -> list[Searches]:
    """Every method that searches, model by model."""
    return [*_of_studies(), *_of_digits(rows)]


def _of_studies() -> Iterator[Searches]:
    for table in TABLES:
        for group in whole_groups(table):
            # with softmax regression methods stand that no other task has
            if group.label in (*COLOUR_ORDER, REMEMBERING) and does_search(group):
                yield Searches(
                    MODELS[table.name],
                    group.label,
                    mean_curve(group, lambda run: run.column("trials")),
                    sum(int(sum(run.column("failed"))) for run in group.runs),
                    _searched(group),
                )


def _searched(group: Group) -> float:
    """The share of the steps that were searched for."""
    searched = 0.0
    steps = 0.0
    for run in group.runs:
        columns = (run.column(name) for name in ("forwards", "backwards", "trials"))
        for forwards, backwards, trials in zip(*columns, strict=True):
            steps += backwards
            if trials:
                searched += (forwards - backwards) / trials
    return searched / steps


def _of_digits(rows: Sequence[Row]) -> Iterator[Searches]:
    for method, label in (("fedpace", OURS), ("fedsls", "FedSLS")):
        found = [row for row in rows if (row["question"], row["method"]) == ("deep", method)]
        if found:
            trials = zip(*(row["trials"] for row in found), strict=True)
            failed = sum(sum(row["failed"]) for row in found)
            yield Searches(DIGITS, label, [fmean(values) for values in trials], failed)


def draw_armijo(rows: Sequence[Row]) -> None:
    """A panel for every model."""
    found = searches(rows)
    models = list(dict.fromkeys(one.model for one in found))
    fig, grid = pyplot().subplots(2, 4, figsize=(14.0, 6.0), sharey=True, layout="constrained")
    for axes, model in zip(grid.flat, models, strict=False):
        for one in found:
            if one.model == model:
                _draw(axes, one)
        axes.set(title=model, xlabel="round")
        axes.grid(alpha=0.25)
    for axes in grid[:, 0]:
        axes.set_ylabel("trials of a searched step")
    shared_legend(grid, len(models))
    save(fig, "armijo")


def _draw(axes: Any, one: Searches) -> None:
    means = one.means()
    axes.plot(
        [WINDOW * (k + 0.5) for k in range(len(means))],
        means,
        color=colour_of(one.method),
        linewidth=2.2 if one.method == OURS else 1.4,
        linestyle="--" if one.method == REMEMBERING else "-",
        label=one.method,
    )


def armijo_table(rows: Sequence[Row]) -> str:
    """How often is searched, how long, and how often in vain."""
    lines = [
        f"| model | method | steps searched | trials, first {WINDOW} rounds | last {WINDOW} rounds "
        "| first trials that held, at least | searches that failed |",
        "|---" * 7 + "|",
    ]
    for one in searches(rows):
        means = one.means()
        cells = (
            one.model,
            one.method,
            _share(one.searched),
            f"{means[0]:.2f}",
            f"{means[-1]:.2f}",
            _share(one.held),
            str(one.failed),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _share(value: float) -> str:
    """In per cent; empty where it is not known, or where nothing can be said."""
    if not value > 0:
        return ""
    return f"{100 * value:.0f} %"
