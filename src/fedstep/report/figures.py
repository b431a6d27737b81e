"""Figures for papers, through matplotlib (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedstep.analysis.group import primary_metric
from fedstep.analysis.results import Results
from fedstep.core.errors import InputError
from fedstep.report import panels
from fedstep.report.chart import Chart, Series
from fedstep.report.style import DASHES, MARKERS, colour_pair

# matplotlib's words for the entries of DASHES and MARKERS, in their order.
LINE_STYLES: tuple[Any, ...] = ("-", (0, (6, 2)), ":", "-.", "--")
MARKER_STYLES = ("o", "s", "^", "D", "v", "P", "|")


def study_figures(results: Results, folder: Path) -> list[Path]:
    """The figures of a study as PNG and PDF; those without a number are left out."""
    groups = results.groups
    metric = primary_metric(groups)
    measured = {chart.title: chart for chart in panels.metric_charts(groups)}
    loss = {chart.title: chart for chart in panels.loss_charts(groups)}
    server = {chart.title: chart for chart in panels.server_charts(groups)}
    # Names of files, and the charts that stand side by side in them.
    rows: dict[str, Sequence[Chart | None]] = {
        f"{metric.name}-rounds": [measured.get(f"Test {metric.title} by round")],
        f"{metric.name}-gradients": [measured.get(f"Test {metric.title} by cost")],
        "loss-rounds": [loss.get("Training loss by round")],
        "steps-trials": panels.step_charts(groups),
        "eta_g": [server.get("Step the server took")],
    }
    paths = []
    for name, row in rows.items():
        charts = [chart for chart in row if chart is not None]
        if charts:
            paths += _save_row(charts, folder / name)
    return paths


def pyplot() -> Any:
    """matplotlib's pyplot, drawing to files."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        # Not the traceback of an import: the line says what to install.
        raise InputError("matplotlib is not installed: pip install 'fedstep[plot]'") from None
    # Without a screen, as on a server.
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "fedstep"  # the same bytes for the same results
    from matplotlib import pyplot as plt

    return plt


def chart_row(charts: Sequence[Chart], path: str | Path | None = None) -> Any:
    """Charts side by side as a figure, saved where a path is given."""
    fig = _row_figure(charts)
    if path is not None:
        fig.savefig(path, dpi=200)
    pyplot().close(fig)  # the figure lives on; only the list of open windows forgets it
    return fig


def _save_row(charts: Sequence[Chart], stem: Path) -> list[Path]:
    """Charts side by side in two files."""
    plt = pyplot()
    fig = _row_figure(charts)
    stem.parent.mkdir(parents=True, exist_ok=True)
    png = stem.with_name(stem.name + ".png")
    pdf = stem.with_name(stem.name + ".pdf")
    fig.savefig(png, dpi=200)
    fig.savefig(pdf, metadata={"CreationDate": None})  # a date would change the bytes
    plt.close(fig)
    return [png, pdf]


def _row_figure(charts: Sequence[Chart]) -> Any:
    plt = pyplot()
    width = 5.2 * len(charts)
    fig, row = plt.subplots(
        1,
        len(charts),
        figsize=(width, 3.6),
        layout="constrained",
        squeeze=False,
    )
    for axes, chart in zip(row[0], charts, strict=True):
        _draw_chart(axes, chart)
    # One legend serves the row: its charts have the same methods.
    row[0][0].legend(frameon=False, fontsize=8)
    return fig


def _draw_chart(axes: Any, chart: Chart) -> None:
    for line in chart.series:
        _draw_line(axes, line)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    if chart.log_y:
        axes.set_yscale("log")
    axes.grid(alpha=0.25)


def _draw_line(axes: Any, line: Series) -> None:
    # The first of the two shades: paper is light.
    colour = colour_pair(line.style.colour)[0]
    axes.plot(
        line.x,
        line.y,
        color=colour,
        linestyle=LINE_STYLES[DASHES.index(line.style.dash)],
        marker=MARKER_STYLES[MARKERS.index(line.style.marker)],
        # As few as on the page: a marker at every round hides the line.
        markevery=max(1, len(line.x) // 7),
        markersize=4,
        lw=1.5,
        label=line.name,
    )
    if line.band:
        axes.fill_between(
            line.x,
            line.band.low,
            line.band.high,
            color=colour,
            alpha=0.15,
            lw=0,
        )
