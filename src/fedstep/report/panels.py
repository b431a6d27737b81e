"""The charts of a report; those that the results have no numbers for are left out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fedstep.analysis import curves
from fedstep.analysis.compare import Comparison, Line
from fedstep.analysis.curves import Column, Curve
from fedstep.analysis.results import Group
from fedstep.analysis.statistics import Spread
from fedstep.analysis.summary import Run
from fedstep.report.chart import Chart, Series
from fedstep.report.style import line_style

SETTLED = 0.1  # the first rounds of an accuracy curve do not set the scale
C = re.compile(r"(.*?)[\s,]*\bc\s*=\s*([0-9.]+(?:e[+-]?[0-9]+)?)", re.IGNORECASE)


@dataclass(frozen=True)
class CostAxis:
    """What is spent: the word for it in a title, the name of the axis, and its values."""

    word: str
    label: str
    values: Column


ROUNDS = CostAxis("round", "round", curves.rounds)
GRADIENTS = CostAxis("cost", "gradient-equivalents (trials counted)", curves.gradients)
TRAFFIC = CostAxis("traffic", "megabytes, up and down", curves.megabytes)


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
            band=(curve.low, curve.high),
        )


def members(groups: Sequence[Group]) -> list[Member]:
    """The methods with their places."""
    return [Member(index, group) for index, group in enumerate(groups)]


def first_chart(groups: Sequence[Group]) -> Chart | None:
    """What the page opens with: accuracy by round, or the loss where no accuracy was measured."""
    candidates = [
        _accuracy_chart(groups, ROUNDS),
        _train_loss_chart(groups, ROUNDS),
        _batch_loss_chart(groups),
    ]
    return next(iter(_drawable(candidates)), None)


def accuracy_charts(groups: Sequence[Group]) -> list[Chart]:
    """Test accuracy against rounds, gradients and bytes; then readout against last iterate."""
    axes = (ROUNDS, GRADIENTS, TRAFFIC)
    charts = [_accuracy_chart(groups, axis) for axis in axes]
    return _drawable([*charts, _readout_chart(groups)])


def loss_charts(groups: Sequence[Group]) -> list[Chart]:
    """Loss over all clients against rounds, gradients and bytes, or on the clients' batches; then on test data."""
    over_clients = _drawable(
        _train_loss_chart(groups, axis) for axis in (ROUNDS, GRADIENTS, TRAFFIC)
    )
    # The clients' own batches tell less, and only of those who took part: a stand-in.
    if not over_clients:
        over_clients = _drawable([_batch_loss_chart(groups)])
    return over_clients + _drawable([_test_loss_chart(groups)])


def step_charts(groups: Sequence[Group]) -> list[Chart]:
    """Accepted steps and trials by round: Figure 4 of the paper."""
    searching = [m for m in members(groups) if curves.searches(m.group)]
    trials = curves.column("trials")
    steps_note = (
        "Of all steps of a round's clients; line: median, band: quartiles, means over seeds."
    )
    return _drawable(
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
        ]
    )


def server_charts(groups: Sequence[Group]) -> list[Chart]:
    """The server's step by round, and what the accuracy did after large ones."""
    moving = [m for m in members(groups) if curves.extrapolates(m.group)]
    eta_g = curves.column("eta_g")
    jumps_note = (
        "A dot is an evaluation of one seed; right: large extrapolation, "
        "below 0: the last iterate got worse."
    )
    return _drawable(
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
                y_label="change of accuracy, points",
                series=tuple(_jump_dots(m) for m in moving),
                log_x=True,
                note=jumps_note,
            ),
        ]
    )


def sensitivity_charts(comparison: Comparison) -> list[Chart]:
    """Accuracy and trials against c where every label ends in `c=...`: Figure 5 of the paper."""
    families = _families(comparison)
    accuracy = _against_c(
        families, lambda line: Spread(100 * line.accuracy.mean, 100 * line.accuracy.std)
    )
    trials = _against_c(families, lambda line: Spread(line.trials, math.nan))
    return _drawable(
        [
            Chart(
                title="Accuracy against c",
                x_label="c",
                y_label="accuracy, %",
                series=accuracy,
                note="Band: one deviation over seeds.",
                keys=True,
            ),
            Chart(
                title="Trials a step against c",
                x_label="c",
                y_label="trials",
                series=trials,
                keys=True,
            ),
        ]
    )


def jumps(run: Run) -> list[tuple[float, float]]:
    """Largest server step between two evaluations, and how far the last iterate's accuracy moved, in points."""
    eta_g = run.column("eta_g")
    accuracy = run.column("last_accuracy")
    evaluated = [k for k, value in enumerate(accuracy) if not math.isnan(value)]
    moves = []
    for before, after in pairwise(evaluated):
        largest = max(eta_g[before + 1 : after + 1])
        change = 100 * (accuracy[after] - accuracy[before])
        moves.append((largest, change))
    return moves


def _accuracy_chart(groups: Sequence[Group], axis: CostAxis) -> Chart:
    return Chart(
        title=f"Test accuracy by {axis.word}",
        x_label=axis.label,
        y_label="accuracy, %",
        series=_bands(groups, curves.accuracy, axis.values),
        settled=SETTLED,
    )


def _readout_chart(groups: Sequence[Group]) -> Chart:
    lines = []
    for member in members(groups):
        if curves.averages(member.group):
            lines.append(_bare(member, curves.last_accuracy, faint=True))
            lines.append(_bare(member, curves.accuracy, faint=False))
    return Chart(
        title="Readout and last iterate",
        x_label="round",
        y_label="accuracy, %",
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
        series=_bands(groups, curves.column("train_loss"), axis.values),
        log_y=True,
    )


def _test_loss_chart(groups: Sequence[Group]) -> Chart:
    return Chart(
        title="Test loss by round",
        x_label="round",
        y_label="test loss",
        series=_bands(groups, curves.column("test_loss"), curves.rounds),
        log_y=True,
    )


def _batch_loss_chart(groups: Sequence[Group]) -> Chart:
    return Chart(
        title="Loss on the clients' batches by round",
        x_label="round",
        y_label="loss",
        series=_bands(groups, curves.column("loss"), curves.rounds),
        log_y=True,
        note="Of the batches of the local steps, while the clients move.",
    )


def _jump_dots(member: Member) -> Series:
    moves = [move for run in member.group.runs for move in jumps(run)]
    points = curves.thin(moves)
    return Series(
        name=member.group.label,
        x=[largest for largest, _ in points],
        y=[change for _, change in points],
        style=line_style(member.index),
        dots=True,
    )


def _families(comparison: Comparison) -> dict[str, list[tuple[float, Line]]]:
    """Methods by what stands before `c=`, with their c; nothing where a label does not end so."""
    families: dict[str, list[tuple[float, Line]]] = {}
    for line in comparison.lines:
        match = C.fullmatch(line.label)
        if match is None:
            return {}
        families.setdefault(match[1], []).append((float(match[2]), line))
    if len(comparison.lines) < 2:
        return {}
    return families


def _against_c(
    families: dict[str, list[tuple[float, Line]]], score: Callable[[Line], Spread]
) -> tuple[Series, ...]:
    lines = []
    for index, (name, members_of) in enumerate(families.items()):
        ordered = sorted(members_of, key=lambda pair: pair[0])
        spreads = [score(line) for _, line in ordered]
        lines.append(
            Series(
                name=name,
                x=[c for c, _ in ordered],
                y=[s.mean for s in spreads],
                style=line_style(index),
                band=(
                    [s.mean - s.std for s in spreads],
                    [s.mean + s.std for s in spreads],
                ),
            )
        )
    return tuple(lines)


def _bands(groups: Sequence[Group], y: Column, x: Column) -> tuple[Series, ...]:
    return tuple(m.line(curves.mean_band(m.group, y, x)) for m in members(groups))


def _drawable(charts: Iterable[Chart]) -> list[Chart]:
    """The charts that have a number, without the lines that have none."""
    return [chart for chart in charts if chart.drawable]
