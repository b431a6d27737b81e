"""Figures for papers, through matplotlib (extra `plot`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedstep.core.errors import InputError
from fedstep.study import curves
from fedstep.study.curves import Curve
from fedstep.study.page import COLOURS as PALETTE
from fedstep.study.results import Group, Results

if TYPE_CHECKING:
    from fedstep.study.toy import Walk

COLOURS = {"FedAvg": "#0072b2", "FedExP": "#d55e00", "FedSLS": "#009e73", "FedExpSLS": "#a34a86"}


def toy_figure(main: Sequence[Walk], honest: Sequence[Walk], title: str, stem: Path) -> list[Path]:
    """Loss curves, the path in the plane and the baselines at several learning rates, as PNG and SVG."""
    plt = pyplot()
    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    fig.suptitle(title)
    for walk in main:
        left.semilogy(_floored(walk.values), color=COLOURS[walk.name], label=walk.name)
    left.set(title="Loss", xlabel="round", ylabel="F")
    left.legend(frameon=False)
    _paths(middle, main)
    styles = (":", "-.", "--", "-")
    for i, walk in enumerate(honest):
        colour = COLOURS[walk.name.split(",")[0]]
        right.semilogy(_floored(walk.values), styles[i % 4], color=colour, lw=1.2, label=walk.name)
    for walk in main:
        if walk.name.endswith("SLS"):
            right.semilogy(_floored(walk.values), color=COLOURS[walk.name], lw=2.4, label=f"{walk.name}, no step given")
    right.set(title="The same, baselines at several steps", xlabel="round", ylabel="F")
    right.legend(frameon=False, fontsize=7.5, ncols=2, loc="lower left")
    for axes in (left, right):
        axes.set_ylim(1e-18, 10)
        axes.grid(alpha=0.25)
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    for path in paths:
        fig.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(fig)
    return paths


def study_figures(results: Results, folder: Path) -> list[Path]:
    """The figures of a study as PNG and PDF; those that the results have no numbers for are left out."""
    accuracy, loss, eta_g = curves.accuracy, curves.column("train_loss"), curves.column("eta_g")
    cost = "gradient-equivalents"
    groups = list(enumerate(results.groups))
    searching = [(i, g) for i, g in groups if curves.searches(g)]
    moving = [(i, g) for i, g in groups if curves.extrapolates(g)]
    panels: dict[str, list[_Panel]] = {
        "accuracy-rounds": [(groups, lambda g: curves.mean_band(g, accuracy), "round", "test accuracy, %", False)],
        "accuracy-gradients": [
            (groups, lambda g: curves.mean_band(g, accuracy, curves.gradients), cost, "test accuracy, %", False)
        ],
        "loss-rounds": [(groups, lambda g: curves.mean_band(g, loss), "round", "training loss", True)],
        "steps-trials": [
            (searching, curves.quartiles, "round", "client step", True),
            (searching, lambda g: curves.mean_band(g, curves.column("trials")), "round", "trials a step", False),
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
    fig, row = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 3.6), layout="constrained", squeeze=False)
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
        fig.savefig(path, dpi=200, metadata={"CreationDate": None} if path.suffix == ".pdf" else None)
    plt.close(fig)
    return paths


def _paths(axes: Any, walks: Sequence[Walk]) -> None:
    import numpy as np

    xs, ys = np.meshgrid(np.linspace(-0.2, 3.6, 200), np.linspace(-0.5, 1.9, 200))
    levels = ((xs + ys - 3) ** 2 + (xs + 2 * ys - 3) ** 2) / 2
    axes.contour(xs, ys, levels, levels=np.geomspace(0.003, 8, 9), colors="#b9c0c9", linewidths=0.7)
    for walk in walks:
        points = np.array(walk.points)
        axes.plot(points[:, 0], points[:, 1], "o-", ms=2.6, lw=1.1, color=COLOURS[walk.name], label=walk.name)
    axes.plot(*walks[0].points[0], "ks", ms=6, label="start")
    axes.plot(3, 0, "k*", ms=12, label="minimum")
    axes.set(title="Path of the server in the plane", xlabel="w1", ylabel="w2", xlim=(-0.2, 3.6), ylim=(-0.5, 1.9))
    axes.legend(frameon=False, fontsize=8)


def _floored(values: Sequence[float]) -> list[float]:
    """Values that a logarithm can show: an exact zero becomes the smallest one drawn."""
    return [max(v, 1e-18) for v in values]


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
