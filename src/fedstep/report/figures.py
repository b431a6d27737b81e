"""Figures for papers, through matplotlib (extra `plot`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedstep.analysis import curves
from fedstep.analysis.curves import Curve
from fedstep.analysis.results import Group, Results
from fedstep.core.errors import InputError
from fedstep.report.page import COLOURS as PALETTE


def study_figures(results: Results, folder: Path) -> list[Path]:
    """The figures of a study as PNG and PDF; those that the results have no numbers for are left out."""
    accuracy, loss, eta_g = curves.accuracy, curves.column("train_loss"), curves.column("eta_g")
    cost = "gradient-equivalents"
    groups = list(enumerate(results.groups))
    searching = [(i, g) for i, g in groups if curves.searches(g)]
    moving = [(i, g) for i, g in groups if curves.extrapolates(g)]
    panels: dict[str, list[_Panel]] = {
        "accuracy-rounds": [
            (groups, lambda g: curves.mean_band(g, accuracy), "round", "test accuracy, %", False)
        ],
        "accuracy-gradients": [
            (
                groups,
                lambda g: curves.mean_band(g, accuracy, curves.gradients),
                cost,
                "test accuracy, %",
                False,
            )
        ],
        "loss-rounds": [
            (groups, lambda g: curves.mean_band(g, loss), "round", "training loss", True)
        ],
        "steps-trials": [
            (searching, curves.quartiles, "round", "client step", True),
            (
                searching,
                lambda g: curves.mean_band(g, curves.column("trials")),
                "round",
                "trials a step",
                False,
            ),
        ],
        "eta_g": [(moving, lambda g: curves.median_range(g, eta_g), "round", "eta_g", True)],
    }
    return [path for name, row in panels.items() for path in _row(row, folder / name)]


_Panel = tuple[Sequence[tuple[int, Group]], Callable[[Group], Curve], str, str, bool]


def _row(panels: Sequence[_Panel], stem: Path) -> list[Path]:
    """Panels side by side in two files."""
    drawn = [[(i, g.label, curve(g)) for i, g in groups] for groups, curve, *_ in panels]
    if not any(len(c.x) for panel in drawn for _, _, c in panel):
        return []
    plt = pyplot()
    fig, row = plt.subplots(
        1, len(panels), figsize=(5.2 * len(panels), 3.6), layout="constrained", squeeze=False
    )
    for axes, lines, (_, _, x, y, log) in zip(row[0], drawn, panels, strict=True):
        for i, label, c in lines:
            colour, style = PALETTE[i % len(PALETTE)][0], "-" if i < len(PALETTE) else "--"
            axes.plot(c.x, c.y, style, color=colour, lw=1.5, label=label)
            axes.fill_between(c.x, c.low, c.high, color=colour, alpha=0.15, lw=0)
        axes.set(xlabel=x, ylabel=y, yscale="log" if log else "linear")
        axes.grid(alpha=0.25)
    row[0][0].legend(frameon=False, fontsize=8)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".pdf")]
    for path in paths:
        fig.savefig(
            path, dpi=200, metadata={"CreationDate": None} if path.suffix == ".pdf" else None
        )
    plt.close(fig)
    return paths


def pyplot() -> Any:
    """matplotlib's pyplot, drawing to files."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise InputError("matplotlib is not installed: pip install 'fedstep[plot]'") from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "fedstep"  # the same bytes for the same results
    from matplotlib import pyplot as plt

    return plt
