"""Figure 1 of the paper as a picture, through matplotlib (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedstep.paper.toy import Walk
from fedstep.report.figures import pyplot

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
            right.semilogy(
                _floored(walk.values),
                color=COLOURS[walk.name],
                lw=2.4,
                label=f"{walk.name}, no step given",
            )
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


def _paths(axes: Any, walks: Sequence[Walk]) -> None:
    import numpy as np

    xs, ys = np.meshgrid(np.linspace(-0.2, 3.6, 200), np.linspace(-0.5, 1.9, 200))
    levels = ((xs + ys - 3) ** 2 + (xs + 2 * ys - 3) ** 2) / 2
    axes.contour(xs, ys, levels, levels=np.geomspace(0.003, 8, 9), colors="#b9c0c9", linewidths=0.7)
    for walk in walks:
        points = np.array(walk.points)
        axes.plot(
            points[:, 0],
            points[:, 1],
            "o-",
            ms=2.6,
            lw=1.1,
            color=COLOURS[walk.name],
            label=walk.name,
        )
    axes.plot(*walks[0].points[0], "ks", ms=6, label="start")
    axes.plot(3, 0, "k*", ms=12, label="minimum")
    axes.set(
        title="Path of the server in the plane",
        xlabel="w1",
        ylabel="w2",
        xlim=(-0.2, 3.6),
        ylim=(-0.5, 1.9),
    )
    axes.legend(frameon=False, fontsize=8)


def _floored(values: Sequence[float]) -> list[float]:
    """Values that a logarithm can show: an exact zero becomes the smallest one drawn."""
    return [max(v, 1e-18) for v in values]
