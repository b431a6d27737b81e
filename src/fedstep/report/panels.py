"""The charts of a study."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from fedstep.analysis import curves
from fedstep.analysis.compare import Comparison, Line
from fedstep.analysis.curves import Column, Curve
from fedstep.analysis.results import Group
from fedstep.analysis.statistics import Spread
from fedstep.analysis.summary import Run
from fedstep.report.page import COLOURS
from fedstep.report.svg import Series, chart

AXES: tuple[tuple[str, str, Column], ...] = (
    ("round", "round", curves.rounds),
    ("cost", "gradient-equivalents (trials counted)", curves.gradients),
    ("traffic", "megabytes, up and down", curves.megabytes),
)
SETTLED = 0.1  # the first rounds of an accuracy curve do not set the scale
C = re.compile(r"(.*?)[\s,]*\bc\s*=\s*([0-9.]+(?:e[+-]?[0-9]+)?)", re.IGNORECASE)


def accuracy_panels(groups: Sequence[Group]) -> list[str]:
    """Test accuracy against rounds, gradients and bytes; then readout against last iterate where they differ."""
    drawn = [
        _drawn(
            f"Test accuracy by {by}",
            x,
            "accuracy, %",
            _bands(groups, curves.accuracy, at),
            settled=SETTLED,
        )
        for by, x, at in AXES
    ]
    both = []
    for i, g in enumerate(groups):
        if curves.averages(g):
            for y, dashed in ((curves.last_accuracy, True), (curves.accuracy, False)):
                curve = curves.mean_band(g, y)
                both.append(Series(g.label, curve.x, curve.y, _colour(i), dashed=dashed))
    note = "Solid: the point that is read out; dashed: the last iterate. Methods for which they differ."
    return [
        d
        for d in (
            *drawn,
            _drawn(
                "Readout and last iterate", "round", "accuracy, %", both, note=note, settled=SETTLED
            ),
        )
        if d
    ]


def loss_panels(groups: Sequence[Group]) -> list[str]:
    """Loss over all clients against rounds, gradients and bytes."""
    y = curves.column("train_loss")
    drawn = (
        _drawn(f"Training loss by {by}", x, "training loss", _bands(groups, y, at), log_y=True)
        for by, x, at in AXES
    )
    return [d for d in drawn if d]


def step_panels(groups: Sequence[Group]) -> list[str]:
    """Accepted steps and trials by round: Figure 4 of the paper."""
    found = [(i, g) for i, g in enumerate(groups) if curves.searches(g)]
    steps = [_series(g, i, curves.quartiles(g)) for i, g in found]
    trials = [_series(g, i, curves.mean_band(g, curves.column("trials"))) for i, g in found]
    note = "Of all steps of a round's clients; line: median, band: quartiles, means over seeds."
    drawn = (
        _drawn("Step the clients accepted", "round", "client step", steps, log_y=True, note=note),
        _drawn("Trials a step", "round", "trials", trials, note="1: the first guess was accepted."),
    )
    return [d for d in drawn if d]


def server_panels(groups: Sequence[Group]) -> list[str]:
    """The server's step by round, and what the accuracy did after large ones."""
    found = [(i, g) for i, g in enumerate(groups) if curves.extrapolates(g)]
    trace = [_series(g, i, curves.median_range(g, curves.column("eta_g"))) for i, g in found]
    dots = []
    for i, g in found:
        points = curves.thin([p for run in g.runs for p in jumps(run)])
        dots.append(
            Series(g.label, [x for x, _ in points], [y for _, y in points], _colour(i), dots=True)
        )
    note = "A dot is an evaluation of one seed; right: large extrapolation, below 0: the last iterate got worse."
    drawn = (
        _drawn(
            "Step the server took",
            "round",
            "eta_g",
            trace,
            log_y=True,
            note="Median, smallest and largest over seeds.",
        ),
        _drawn(
            "Extrapolation and what followed",
            "largest eta_g since the evaluation before",
            "change of accuracy, points",
            dots,
            log_x=True,
            note=note,
        ),
    )
    return [d for d in drawn if d]


def sensitivity_panels(comparison: Comparison) -> list[str]:
    """Accuracy and trials against c where every label ends in `c=...`: Figure 5 of the paper; otherwise nothing."""
    parsed = [(C.fullmatch(line.label), line) for line in comparison.lines]
    if len(parsed) < 2 or not all(match for match, _ in parsed):
        return []
    families: dict[str, list[tuple[float, Line]]] = {}
    for match, line in parsed:
        if match:
            families.setdefault(match[1], []).append((float(match[2]), line))

    def lines(y: Callable[[Line], Spread]) -> list[Series]:
        made = []
        for i, (name, points) in enumerate(families.items()):
            ordered = sorted(points, key=lambda point: point[0])
            x, spreads = [c for c, _ in ordered], [y(line) for _, line in ordered]
            middle = [s.mean for s in spreads]
            band = [s.mean - s.std for s in spreads], [s.mean + s.std for s in spreads]
            made += [
                Series(name, x, middle, _colour(i), band),
                Series(name, x, middle, _colour(i), dots=True),
            ]
        return made

    accuracy = lines(lambda line: Spread(100 * line.accuracy.mean, 100 * line.accuracy.std))
    trials = lines(lambda line: Spread(line.trials, math.nan))
    drawn = (
        _drawn(
            "Accuracy against c",
            "c",
            "accuracy, %",
            accuracy,
            note="Band: one deviation over seeds.",
            keys=True,
        ),
        _drawn("Trials a step against c", "c", "trials", trials, keys=True),
    )
    return [d for d in drawn if d]


def jumps(run: Run) -> list[tuple[float, float]]:
    """Largest server step between two evaluations, and how far the last iterate's accuracy moved, in points."""
    eta, accuracy = run.column("eta_g"), run.column("last_accuracy")
    seen = [i for i, a in enumerate(accuracy) if not math.isnan(a)]
    return [(max(eta[a + 1 : b + 1]), 100 * (accuracy[b] - accuracy[a])) for a, b in pairwise(seen)]


def _bands(groups: Sequence[Group], y: Column, x: Column) -> list[Series]:
    return [_series(g, i, curves.mean_band(g, y, x)) for i, g in enumerate(groups)]


def _series(group: Group, i: int, curve: Curve) -> Series:
    return Series(
        group.label, curve.x, curve.y, _colour(i), (curve.low, curve.high), dashed=i >= len(COLOURS)
    )


def _colour(i: int) -> int:
    return i % len(COLOURS)


def _drawn(title: str, x: str, y: str, lines: Sequence[Series], **options: Any) -> str:
    """A chart, or nothing where no line has a number."""
    if all(math.isnan(v) for line in lines for v in line.y):
        return ""
    return chart(lines, title, x, y, **options)
