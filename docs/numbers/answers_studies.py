"""Figures of docs/evidence.md that are made of the studies' results: cost and kappa."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from evidence_curves import KNOWN, OURS, REMEMBERING, TABLES, whole_groups
from fedstep.analysis.curves import metric_column
from fedstep.analysis.group import Group, primary_metric
from fedstep.report.figures import pyplot
from fedstep.report.style import colour_pair
from pages import MEASURED, ROOT

IMAGES = ROOT / "docs" / "images" / "evidence"
THEORY = {
    "softmax regression": "theory-femnist.json",
    "CNN": "theory-femnist-cnn.json",
}  # by model: files of benchmarks/results
TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
COLOUR_ORDER = (
    OURS,
    "FedAvg",
    "FedExP",
    "FedAdam",
    "FedSLS",
    "FedExpSLS",
    "SCAFFOLD",
    "Delta-SGD",
    "FATHOM",
    "FedAdam-SLS",
)
# their colours alone could not be told apart
DASHES = {"Delta-SGD": "--", "FATHOM": "-.", "FedAdam-SLS": ":", REMEMBERING: "--"}

Row = dict[str, Any]


def save(fig: Any, name: str) -> None:
    """As PNG, without a date."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    fig.savefig(IMAGES / f"{name}.png", dpi=110, metadata={"Software": None})
    pyplot().close(fig)


def mean_curve(group: Group, column: Callable[[Any], Sequence[float]]) -> list[float]:
    """Over the seeds, round by round; NaN where nothing was evaluated."""
    return [fmean(values) for values in zip(*(column(run) for run in group.runs), strict=True)]


def draw_cost() -> None:
    """Accuracy against everything that was computed, tuning first."""
    plt = pyplot()
    tables = [table for table in TABLES if whole_groups(table)]
    fig, grid = plt.subplots(2, 3, figsize=(11.6, 6.4), layout="constrained")
    for axes, table in zip(grid.flat, tables, strict=False):
        for group in whole_groups(table):
            # those of all tasks: a panel of twenty methods could not be read
            if method_name(group.label) in (*COLOUR_ORDER, REMEMBERING):
                _cost_curve(axes, group)
        axes.set(title=table.name, xlabel="gradient equivalents / 1,000")
        axes.set(ylabel="test accuracy, %")
        _plain_ticks(axes)
        axes.grid(alpha=0.25)
    shared_legend(grid, len(tables))
    save(fig, "cost")


def shared_legend(grid: Any, used: int) -> None:
    """One legend for all panels, in the place of the last one."""
    lines = {line.get_label(): line for axes in grid.flat for line in axes.get_lines()}
    for axes in grid.flat[used:]:
        axes.set_axis_off()
    grid.flat[-1].legend(
        lines.values(),
        lines.keys(),
        loc="center",
        frameon=False,
        fontsize=9.5,
    )


def _plain_ticks(axes: Any) -> None:
    """A logarithmic axis with numbers that can be read."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def method_name(label: str) -> str:
    """A label without its steps."""
    return label.split(",")[0]


def colour_of(label: str) -> str:
    """One colour for a method on all tasks, whatever its steps are, and for both of ours."""
    name = method_name(label)
    if name == REMEMBERING:
        name = OURS
    place = COLOUR_ORDER.index(name) if name in COLOUR_ORDER else len(COLOUR_ORDER)
    return colour_pair(place)[0]


def _cost_curve(axes: Any, group: Group) -> None:
    metric = primary_metric([group])
    accuracy = mean_curve(group, metric_column(metric))
    gradients = mean_curve(group, lambda run: run.gradients)
    run = group.runs[0]
    tuning = group.choice.rounds * run.gradients[-1] / run.rounds[-1]
    points = [
        ((spent + tuning) / 1000, value)
        for spent, value in zip(gradients, accuracy, strict=True)
        if not math.isnan(value)
    ]
    is_ours = group.label == OURS
    axes.plot(
        [x for x, _ in points],
        [y for _, y in points],
        color=colour_of(group.label),
        linewidth=2.2 if is_ours else 1.2,
        linestyle="--" if group.label in KNOWN else DASHES.get(group.label, "-"),
        zorder=3 if is_ours else 2,
        label=group.label,
    )


def kappa_of(file: str) -> list[Row]:
    """A line search, its kappa_f at both points by round, the largest over clients; its limit."""
    found = []
    for record in json.loads((MEASURED / file).read_text()):
        rounds = sorted({one["round"] for one in record["rounds"]})
        row: Row = {"spec": record["spec"], "rounds": [number + 1 for number in rounds]}
        for point in ("before", "after"):
            of_round = dict.fromkeys(rounds, 0.0)
            for one in record["rounds"]:
                of_round[one["round"]] = max(of_round[one["round"]], one[point] or 0.0)
            row[point] = list(of_round.values())
        (asked,) = (one for one in record["hypotheses"] if one["theorems"] == "all")
        found.append(row | {"kappa": asked["found"], "limit": asked["limit"]})
    return found


def draw_kappa() -> None:
    """kappa_f of every round, and what the paper allows it to be."""
    plt = pyplot()
    fig, grid = plt.subplots(1, 2, figsize=(8.6, 3.4), sharey=True, layout="constrained")
    for axes, (model, file) in zip(grid, THEORY.items(), strict=True):
        for place, record in enumerate(kappa_of(file)):
            colour = colour_pair(place)[0]
            kappa = [max(pair) for pair in zip(record["before"], record["after"], strict=True)]
            axes.plot(record["rounds"], kappa, "o-", color=colour, label=record["spec"])
            axes.axhline(
                record["limit"], color=colour, linestyle=":", label=f"{record['spec']}: at most"
            )
        axes.set_yscale("log")
        axes.set(title=model, xlabel="round")
        axes.grid(alpha=0.25)
    grid[0].set(ylabel="kappa_f")
    fig.legend(
        *grid[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
        fontsize=8.5,
    )
    save(fig, "kappa")


def kappa_table() -> str:
    """The largest over clients and rounds, at both points of the definition."""
    lines = [
        "| model | method | at w_{k-1} | at w_k | kappa_f | its limit | times too large |",
        "|---" * 7 + "|",
    ]
    for model, file in THEORY.items():
        for record in kappa_of(file):
            numbers = (max(record["before"]), max(record["after"]), record["kappa"])
            cells = " | ".join(f"{number:.3g}" for number in (*numbers, record["limit"]))
            times = record["kappa"] / record["limit"]
            lines.append(f"| {model} | {record['spec']} | {cells} | {times:.1f} |")
    return "\n".join(lines) + "\n"
