"""The map of the clients' labels as a PNG, through matplotlib (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedstep.core.errors import InputError
from fedstep.report.figures import pyplot
from fedstep.report.heatmap_layout import (
    MOST_CLIENTS,
    Counts,
    caption,
    check_counts,
    divided_up,
    largest_share,
    shares,
)


def save_png(counts: Counts, labels: Sequence[str], title: str, path: Path) -> Path | None:
    """The map as a PNG; None where matplotlib is not installed."""
    check_counts(counts, labels)
    try:
        plt = pyplot()
    except InputError:
        # The page has the map already; the picture is an extra.
        return None
    shown = counts[:MOST_CLIENTS]
    rows = max(len(labels), 20)
    height = 2 + 0.13 * rows
    fig, axes = plt.subplots(
        figsize=(11, height),
        layout="constrained",
    )
    by_label = list(zip(*shares(shown), strict=True))
    largest = largest_share(by_label)
    # The root of the share, as on the page: rare labels show.
    norm = plt.matplotlib.colors.PowerNorm(0.5, 0, largest)
    image = axes.imshow(
        by_label,
        aspect="auto",
        # Blurred cells would mix the shares of neighbours.
        interpolation="nearest",
        cmap="Blues",
        norm=norm,
    )
    # From 80 labels on their names would touch.
    every = 1
    if len(labels) > 80:
        every = divided_up(len(labels), 40)
    font_size = 8
    if len(labels) > 30:
        font_size = 6
    axes.set_yticks(
        range(0, len(labels), every),
        labels[::every],
        fontsize=font_size,
    )
    axes.set(
        title=caption(title, counts),
        xlabel="client",
        ylabel="label",
    )
    fig.colorbar(
        image,
        label="share of the client's samples",
        pad=0.01,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=150)
    plt.close(fig)
    return path
