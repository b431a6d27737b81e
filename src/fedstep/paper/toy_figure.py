"""Figure 1 of the paper as a picture, through matplotlib (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedstep.paper.toy import Walk
from fedstep.report.figures import pyplot
from fedstep.report.style import colour_pair

METHODS = ("FedAvg", "FedExP", "FedSLS", "FedExpSLS")
# Those of the report on light pages: a method looks the same in both.
COLOURS = {method: colour_pair(index)[0] for index, method in enumerate(METHODS)}
RATE_STYLES = (":", "-.", "--", "-")  # of the baselines' learning rates, small to large
SMALLEST = 1e-18  # value of F that is drawn


def toy_figure(
    main: Sequence[Walk],
    honest: Sequence[Walk],
    title: str,
    stem: Path,
) -> list[Path]:
    """Loss curves, the path in the plane and the baselines at several rates, as PNG and SVG."""
    plt = pyplot()
    fig, (left, middle, right) = plt.subplots(
        1,
        3,
        figsize=(12.5, 4.4),
        layout="constrained",
    )
    fig.suptitle(title)
    _draw_losses(left, main)
    _draw_paths(middle, main)
    _draw_baselines(right, main, honest)
    # The same scale for both: the panels are there to be compared.
    for axes in (left, right):
        axes.set_ylim(SMALLEST, 10)
        axes.grid(alpha=0.25)
    stem.parent.mkdir(parents=True, exist_ok=True)
    png = stem.with_suffix(".png")
    svg = stem.with_suffix(".svg")
    fig.savefig(png, dpi=150)
    # A date would change the bytes of the same picture.
    fig.savefig(svg, dpi=150, metadata={"Date": None})
    plt.close(fig)
    return [png, svg]


def _draw_losses(axes: Any, walks: Sequence[Walk]) -> None:
    for walk in walks:
        axes.semilogy(
            _floored(walk.values),
            color=COLOURS[walk.name],
            label=walk.name,
        )
    axes.set(title="Loss", xlabel="round", ylabel="F")
    axes.legend(frameon=False)


def _draw_baselines(axes: Any, main: Sequence[Walk], honest: Sequence[Walk]) -> None:
    for place, walk in enumerate(honest):
        # "FedAvg, step 0.1" has the colour of FedAvg.
        method = walk.name.split(",")[0]
        axes.semilogy(
            _floored(walk.values),
            RATE_STYLES[place % len(RATE_STYLES)],
            color=COLOURS[method],
            lw=1.2,
            label=walk.name,
        )
    # The searching methods once more, above the others: they are what the rates compete with.
    for walk in main:
        if walk.name.endswith("SLS"):
            axes.semilogy(
                _floored(walk.values),
                color=COLOURS[walk.name],
                lw=2.4,
                label=f"{walk.name}, no step given",
            )
    axes.set(
        title="The same, baselines at several steps",
        xlabel="round",
        ylabel="F",
    )
    axes.legend(
        frameon=False,
        fontsize=7.5,
        ncols=2,
        loc="lower left",
    )


def _draw_paths(axes: Any, walks: Sequence[Walk]) -> None:
    import numpy as np

    across = np.linspace(-0.2, 3.6, 200)
    upright = np.linspace(-0.5, 1.9, 200)
    xs, ys = np.meshgrid(across, upright)
    heights = ((xs + ys - 3) ** 2 + (xs + 2 * ys - 3) ** 2) / 2
    axes.contour(
        xs,
        ys,
        heights,
        # Equal ratios: near the minimum equal distances would leave the valley empty.
        levels=np.geomspace(0.003, 8, 9),
        colors="#b9c0c9",
        linewidths=0.7,
    )
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
    start = walks[0].points[0]
    axes.plot(*start, "ks", ms=6, label="start")
    axes.plot(3, 0, "k*", ms=12, label="minimum")
    axes.set(
        title="Path of the server in the plane",
        xlabel="w1",
        ylabel="w2",
        # Fixed, and those of the contours: whatever lies outside must not shrink the valley.
        xlim=(-0.2, 3.6),
        ylim=(-0.5, 1.9),
    )
    axes.legend(frameon=False, fontsize=8)


def _floored(values: Sequence[float]) -> list[float]:
    """Values that a logarithm can show: an exact zero becomes the smallest one drawn."""
    return [max(value, SMALLEST) for value in values]
