"""How long searches last in deep networks, and how often they fail: a figure and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from answers_studies import Row, colour_of, mean_curve, save, shared_legend
from evidence_curves import OURS, REMEMBERING, TABLES, whole_groups
from fedstep.report.figures import pyplot

WINDOW = 10  # rounds that a point is the mean of
# networks, by the name of their task
DEEP = {
    "FEMNIST, CNN": "CNN, FEMNIST",
    "CIFAR-10": "LeNet, CIFAR-10",
    "CIFAR-100": "LeNet, CIFAR-100",
    "Shakespeare": "LSTM, Shakespeare",
}
DIGITS = "four hidden layers, digits"


@dataclass(frozen=True)
class Searches:
    """What the searches of a method cost in a network."""

    network: str
    method: str
    trials: Sequence[float]  # of a searched step by round, mean over seeds: 1 is the first guess
    failed: int  # searches of all seeds that ended without an accepted step

    def means(self) -> list[float]:
        """Trials in every WINDOW rounds."""
        count = len(self.trials) // WINDOW
        return [fmean(self.trials[WINDOW * k : WINDOW * (k + 1)]) for k in range(count)]


def searches(rows: Sequence[Row]) -> list[Searches]:
    """Every method that searches, network by network."""
    return [*_of_studies(), *_of_digits(rows)]


def _of_studies() -> Iterator[Searches]:
    for table in TABLES:
        if table.name not in DEEP:
            continue
        for group in whole_groups(table):
            if any(sum(run.column("trials")) for run in group.runs):
                yield Searches(
                    DEEP[table.name],
                    group.label,
                    mean_curve(group, lambda run: run.column("trials")),
                    sum(int(sum(run.column("failed"))) for run in group.runs),
                )


def _of_digits(rows: Sequence[Row]) -> Iterator[Searches]:
    for method, label in (("fedpace", OURS), ("fedsls", "FedSLS")):
        found = [row for row in rows if (row["question"], row["method"]) == ("deep", method)]
        if found:
            trials = zip(*(row["trials"] for row in found), strict=True)
            failed = sum(sum(row["failed"]) for row in found)
            yield Searches(DIGITS, label, [fmean(values) for values in trials], failed)


def draw_armijo(rows: Sequence[Row]) -> None:
    """A panel for every network."""
    found = searches(rows)
    networks = list(dict.fromkeys(one.network for one in found))
    fig, grid = pyplot().subplots(2, 3, figsize=(11.6, 6.0), sharey=True, layout="constrained")
    for axes, network in zip(grid.flat, networks, strict=False):
        for one in found:
            if one.network == network:
                _draw(axes, one)
        axes.set(title=network, xlabel="round")
        axes.grid(alpha=0.25)
    for axes in grid[:, 0]:
        axes.set_ylabel("trials of a searched step")
    shared_legend(grid, len(networks))
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
    """Trials in the first and in the last rounds, and searches that failed."""
    lines = [
        f"| network | method | trials, first {WINDOW} rounds | trials, last {WINDOW} rounds "
        "| searches that failed |",
        "|---|---|---|---|---|",
    ]
    for one in searches(rows):
        means = one.means()
        cells = (one.network, one.method, f"{means[0]:.2f}", f"{means[-1]:.2f}", str(one.failed))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
