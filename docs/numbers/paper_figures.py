"""Figures 1 to 5 of the paper, and one of the first step, from committed results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from evidence_curves import in_percent
from fedstep.analysis.curves import Column, mean_band, run_column
from fedstep.analysis.statistics import Spread
from fedstep.paper import toy
from fedstep.paper.toy_figure import METHODS, toy_figure
from fedstep.report.figures import pyplot
from fedstep.report.style import colour_pair
from fedstep.run.history import Run
from pages import ROOT
from paper import (
    FIRST_STEPS,
    ROWS,
    SEARCHES,
    TASKS,
    VARIED_C,
    Shown,
    by_c,
    by_first_step,
    finished,
    score_of,
    study,
)

IMAGES = ROOT / "docs" / "images" / "paper"
PLACES = (*METHODS, "FedExProx")  # colours as in Figure 1
POINTS = 40  # of a curve that has a value in every round


def draw_paper() -> None:
    """Every figure of docs/paper-results.md."""
    walks = [
        [toy.walk(name, method) for name, method in methods.items()]
        for methods in (toy.literal(), toy.baselines())
    ]
    png, _ = toy_figure(*walks, "The algorithms as printed", IMAGES / "figure-1")
    png.unlink()
    _draw_by_round("figure-2", "training loss", ROWS)
    _draw_by_round("figure-3", "test accuracy, %", (*ROWS, SEARCHES[-1]))
    _draw_by_round("figure-4", "trials a step", SEARCHES[:2])
    _draw_c()
    _draw_first_step()


def _draw_by_round(name: str, y_label: str, methods: Sequence[Shown]) -> None:
    """A panel for every data set: means over seeds, bands of one deviation."""
    fig, grid = pyplot().subplots(
        2, 2, figsize=(9.0, 6.8), sharey="trials" in y_label, layout="constrained"
    )
    for axes, task in zip(grid.flat, TASKS, strict=True):
        folder, words = next(iter(task.ours.items()))
        whose = ""
        if y_label == "training loss":
            whose = ", all clients" if study(folder).setting.train_loss else ", participants"
        for shown in methods:
            group = finished(folder).get(shown.label)
            if group is not None:
                curve = mean_band(group, _column(shown, y_label + whose))
                axes.plot(curve.x, curve.y, **_look(shown))
                # the last model of FedExpSLS swings too far for a band
                if shown in ROWS:
                    colour = _colour(shown)
                    axes.fill_between(
                        curve.x, curve.low, curve.high, color=colour, alpha=0.15, lw=0
                    )
        axes.set_title(f"{task.name}: {words}", fontsize=10)
        axes.set(xlabel="round", ylabel=y_label + whose)
    _save(fig, grid.flat, name)


def _column(shown: Shown, y_label: str) -> Column:
    """What a figure with this axis shows of a run."""
    match y_label:
        case "training loss, all clients":
            return run_column("train_loss")
        case "training loss, participants":
            return _windows("loss")
        case "trials a step":
            return _windows("trials")
        case _:
            return run_column(shown.column, 100)


def _windows(key: str) -> Column:
    """Means over as many rounds as leave POINTS of them."""

    def values(run: Run) -> list[float]:
        found = run.column(key)
        size = max(1, len(found) // POINTS)
        means = [math.nan] * len(found)
        for end in range(size, len(found) + 1, size):
            means[end - 1] = fmean(found[end - size : end])
        return means

    return values


def _draw_c() -> None:
    """Figure 5: accuracy and trials by Armijo's c."""
    fig, grid = pyplot().subplots(2, 2, figsize=(9.0, 6.2), sharex=True, layout="constrained")
    for (upper, lower), (task, folder) in zip(grid.T, VARIED_C.items(), strict=True):
        for shown in SEARCHES[:2]:
            found = by_c(folder, shown.label)
            if found:
                _points(
                    upper, list(found), [in_percent(each.score) for each in found.values()], shown
                )
                lower.plot(
                    list(found), [each.trials for each in found.values()], "o-", **_look(shown)
                )
        upper.set(title=task, ylabel="test accuracy, %")
        lower.set(xlabel="c", ylabel="trials a step")
    _save(fig, grid.flat, "figure-5")


def _draw_first_step() -> None:
    """What the first step of a round matters, task by task."""
    fig, grid = pyplot().subplots(1, 5, figsize=(12.0, 3.0), layout="constrained")
    for axes, (task, folder) in zip(grid, FIRST_STEPS.items(), strict=True):
        for shown in SEARCHES:
            scores = {at: score_of(folder, each) for at, each in by_first_step(shown).items()}
            there = {at: score for at, score in scores.items() if not math.isnan(score.mean)}
            _points(axes, list(there), list(there.values()), shown)
        reference = score_of(folder, ROWS[0])
        axes.axhline(reference.mean, label="FedAvg, tuned", color=_colour(ROWS[0]), linestyle=":")
        axes.set_xscale("log")
        axes.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
        axes.minorticks_off()
        axes.set(title=task, xlabel="first step", xlim=(0.07, 14), ylim=(0, None))
    grid[0].set(ylabel="test accuracy, %")
    _save(fig, grid, "first-step")


def _points(axes: Any, at: Sequence[float], spreads: Sequence[Spread], shown: Shown) -> None:
    """Means with bars of one deviation."""
    means = [spread.mean for spread in spreads]
    bars = [0.0 if math.isnan(spread.std) else spread.std for spread in spreads]
    axes.errorbar(at, means, bars, capsize=2, marker="o", markersize=4, **_look(shown))


def _look(shown: Shown) -> dict[str, Any]:
    """FedAvg lies wide below the others, the last model thin beside the one that is scored."""
    width, dash = 1.6, "-"
    if shown == ROWS[0]:
        width = 3.2
    if shown not in ROWS:
        width, dash = 1.0, "--"
    return {"color": _colour(shown), "linestyle": dash, "linewidth": width, "label": shown.title}


def _colour(shown: Shown) -> str:
    return colour_pair(PLACES.index(shown.title.split(",")[0]))[0]


def _save(fig: Any, panels: Any, name: str) -> None:
    """With one legend below all panels."""
    lines = {}
    for axes in panels:
        axes.grid(alpha=0.25)
        handles, labels = axes.get_legend_handles_labels()
        if not handles:
            axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center")
        lines.update(zip(labels, handles, strict=True))
    fig.legend(
        lines.values(), lines.keys(), loc="outside lower center", ncols=6, frameon=False, fontsize=9
    )
    fig.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})
    pyplot().close(fig)
