"""The charts of a report; those that the results have no numbers for are left out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fedstep.analysis import curves
from fedstep.analysis.curves import Column, Curve
from fedstep.analysis.group import Group, primary_metric
from fedstep.report.chart import Band, Chart, Series
from fedstep.report.metric_text import axis_label
from fedstep.report.style import line_style
from fedstep.run.columns import LAST, MetricInfo
from fedstep.run.history import Run

SETTLED = 0.1  # the first rounds of a curve of the metric do not set the scale


@dataclass(frozen=True)
class CostAxis:
    """What is spent: the word for it in a title, the name of the axis, and its values."""

    word: str  # in "Training loss by cost"
    label: str
    values: Column


# Rounds hide what trials cost and messages weigh: every outcome is drawn over all three.
ROUNDS = CostAxis("round", "round", curves.by_round)
GRADIENTS = CostAxis("cost", "gradient-equivalents (trials counted)", curves.by_gradients)
TRAFFIC = CostAxis("traffic", "megabytes, up and down", curves.by_megabytes)


@dataclass(frozen=True)
class Member:
    """A method and its place on the page, which decides how its lines look."""

    index: int
    group: Group

    def line(self, curve: Curve) -> Series:
        """A curve with its band."""
        return Series(
            name=self.group.label,
            x=curve.x,
            y=curve.y,
            style=line_style(self.index),
            band=Band(curve.low, curve.high),
        )


def members(groups: Sequence[Group]) -> list[Member]:
    """The methods with their places."""
    return [Member(index, group) for index, group in enumerate(groups)]


def first_chart(groups: Sequence[Group]) -> Chart | None:
    """What the page opens with: the metric by round, or the loss where it was not measured."""
    candidates = [
        _metric_chart(groups, ROUNDS),
        _train_loss_chart(groups, ROUNDS),
        _batch_loss_chart(groups),
    ]
    return next(iter(drawable_charts(candidates)), None)


def metric_charts(groups: Sequence[Group]) -> list[Chart]:
    """The metric against rounds, gradients and bytes; then readout against last iterate."""
    axes = (ROUNDS, GRADIENTS, TRAFFIC)
    charts = [_metric_chart(groups, axis) for axis in axes]
    return drawable_charts([*charts, _readout_chart(groups)])


def loss_charts(groups: Sequence[Group]) -> list[Chart]:
    """Loss over all clients, or on their batches where it is all there is; then on test data."""
    axes = (ROUNDS, GRADIENTS, TRAFFIC)
    candidates = [_train_loss_chart(groups, axis) for axis in axes]
    over_clients = drawable_charts(candidates)
    # The clients' own batches tell less, and only of those who took part: a stand-in.
    if not over_clients:
        over_clients = drawable_charts([_batch_loss_chart(groups)])
    return over_clients + drawable_charts([_test_loss_chart(groups)])


def step_charts(groups: Sequence[Group]) -> list[Chart]:
    """Accepted steps and trials by round (Figure 4 of the paper), and the pace where there is one."""
    # A fixed step would be a straight line at a number that everybody knows.
    searching = [m for m in members(groups) if curves.searches(m.group)]
    trials = curves.run_column("trials")
    pace = curves.run_column("pace")
    steps_note = (
        "Of all steps of a round's clients; line: median, band: quartiles, means over seeds."
    )
    return drawable_charts(
        [
            Chart(
                title="Step the clients accepted",
                x_label="round",
                y_label="client step",
                series=tuple(m.line(curves.quartiles(m.group)) for m in searching),
                log_y=True,
                note=steps_note,
            ),
            Chart(
                title="Trials a step",
                x_label="round",
                y_label="trials",
                series=tuple(m.line(curves.mean_band(m.group, trials)) for m in searching),
                note="1: the first guess was accepted.",
            ),
            Chart(
                title="Pace of the clients' steps",
                x_label="round",
                y_label="pace",
                series=tuple(m.line(curves.mean_band(m.group, pace)) for m in members(groups)),
                note="A factor of all steps: 1 while rounds agree, less where they undo each other.",
            ),
        ]
    )


def server_charts(groups: Sequence[Group]) -> list[Chart]:
    """The server's step by round, and what the metric did after large ones."""
    metric = primary_metric(groups)
    points = ""
    worse = "above"
    # Differences of shares are points; per cent would be of the other share.
    if metric.percent:
        points = ", points"
    if metric.higher_is_better:
        worse = "below"
    moving = [m for m in members(groups) if curves.extrapolates(m.group)]
    # The median of seeds: one seed that jumps would carry a mean far from all others.
    eta_g = curves.run_column("eta_g")
    jumps_note = (
        "A dot is an evaluation of one seed; right: large extrapolation, "
        f"{worse} 0: the last iterate got worse."
    )
    return drawable_charts(
        [
            Chart(
                title="Step the server took",
                x_label="round",
                y_label="eta_g",
                series=tuple(m.line(curves.median_range(m.group, eta_g)) for m in moving),
                log_y=True,
                note="Median, smallest and largest over seeds.",
            ),
            Chart(
                title="Extrapolation and what followed",
                x_label="largest eta_g since the evaluation before",
                y_label=f"change of {metric.title}{points}",
                series=tuple(_jump_dots(m, metric) for m in moving),
                log_x=True,
                note=jumps_note,
            ),
        ]
    )


def client_charts(groups: Sequence[Group]) -> list[Chart]:
    """Clients whose updates did not count as they were sent; nothing where all of them did."""
    notes = {
        "rejected": (
            "Clients refused",
            "What they sent was not finite, or not of the form that was asked for.",
        ),
        "missing": ("Clients missing", "They were asked, and no answer came in time."),
        "clipped": ("Clients clipped", "Their update was longer than the guard lets one be."),
    }
    charts = []
    for column, (title, note) in notes.items():
        lines = _bands(groups, curves.run_column(column), curves.by_round)
        # A row of zeros is the rule, and no chart.
        if any(value > 0 for line in lines for value in line.y):
            charts.append(Chart(title, "round", "clients", lines, note=note))
    return charts


def jumps(run: Run, metric: MetricInfo) -> list[tuple[float, float]]:
    """Largest server step between two evaluations, and how far the last iterate's metric moved."""
    eta_g = run.column("eta_g")
    values = run.column(LAST + metric.name)
    scale = 1
    if metric.percent:
        scale = 100
    evaluated = [k for k, value in enumerate(values) if not math.isnan(value)]
    moves = []
    for before, after in pairwise(evaluated):
        # Not the last step but the largest: one long step is what throws the iterate off.
        largest = max(eta_g[before + 1 : after + 1])
        change = scale * (values[after] - values[before])
        moves.append((largest, change))
    return moves


def _metric_chart(groups: Sequence[Group], axis: CostAxis) -> Chart:
    metric = primary_metric(groups)
    return Chart(
        title=f"Test {metric.title} by {axis.word}",
        x_label=axis.label,
        y_label=axis_label(metric),
        series=_bands(groups, curves.metric_column(metric), axis.values),
        settled=SETTLED,
    )


def _readout_chart(groups: Sequence[Group]) -> Chart:
    metric = primary_metric(groups)
    last = curves.metric_column(metric, LAST)
    readout = curves.metric_column(metric)
    lines = []
    for member in members(groups):
        if curves.averages(member.group, metric):
            # The faint line first, so that the other lies above it.
            lines.append(_bare(member, last, faint=True))
            lines.append(_bare(member, readout, faint=False))
    return Chart(
        title="Readout and last iterate",
        x_label="round",
        y_label=axis_label(metric),
        series=tuple(lines),
        note="With markers: the point that is read out; thin: the last iterate. "
        "Methods for which they differ.",
        settled=SETTLED,
    )


def _bare(member: Member, values: Column, faint: bool) -> Series:
    """A line without its band."""
    curve = curves.mean_band(member.group, values)
    return Series(
        name=member.group.label,
        x=curve.x,
        y=curve.y,
        style=line_style(member.index),
        faint=faint,
    )


def _train_loss_chart(groups: Sequence[Group], axis: CostAxis) -> Chart:
    return Chart(
        title=f"Training loss by {axis.word}",
        x_label=axis.label,
        y_label="training loss",
        series=_bands(groups, curves.run_column("train_loss"), axis.values),
        log_y=True,
    )


def _test_loss_chart(groups: Sequence[Group]) -> Chart:
    return Chart(
        title="Test loss by round",
        x_label="round",
        y_label="test loss",
        series=_bands(groups, curves.run_column("test_loss"), curves.by_round),
        log_y=True,
    )


def _batch_loss_chart(groups: Sequence[Group]) -> Chart:
    return Chart(
        title="Loss on the clients' batches by round",
        x_label="round",
        y_label="loss",
        series=_bands(groups, curves.run_column("loss"), curves.by_round),
        log_y=True,
        note="Of the batches of the local steps, while the clients move.",
    )


def _jump_dots(member: Member, metric: MetricInfo) -> Series:
    moves: list[tuple[float, float]] = []
    for run in member.group.runs:
        moves += jumps(run, metric)
    # Thousands of dots make a page heavy and show no more.
    points = curves.thin(moves)
    return Series(
        name=member.group.label,
        x=[largest for largest, _ in points],
        y=[change for _, change in points],
        style=line_style(member.index),
        dots=True,
    )


def _bands(groups: Sequence[Group], y: Column, x: Column) -> tuple[Series, ...]:
    lines = []
    for member in members(groups):
        curve = curves.mean_band(member.group, y, x)
        lines.append(member.line(curve))
    return tuple(lines)


def drawable_charts(charts: Iterable[Chart]) -> list[Chart]:
    """The charts that have a number, without the lines that have none."""
    return [chart for chart in charts if chart.drawable]
