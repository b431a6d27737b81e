"""Charts over a parameter that the study varies."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedstep.analysis.compare import Comparison
from fedstep.analysis.statistics import Spread
from fedstep.analysis.summary import MethodSummary
from fedstep.report.chart import Band, Chart, Series
from fedstep.report.metric_text import axis_label
from fedstep.report.panels import drawable_charts
from fedstep.report.style import line_style


def sensitivity_charts(comparison: Comparison) -> list[Chart]:
    """Metric and trials against what the study varies, such as c: Figure 5 of the paper."""
    parameter = varied_parameter(comparison)
    if parameter is None:
        return []
    metric = comparison.metric
    scale = 1
    if metric.percent:
        scale = 100

    def score(method: MethodSummary) -> Spread:
        return Spread(
            mean=scale * method.score.mean,
            std=scale * method.score.std,
        )

    def trials(method: MethodSummary) -> Spread:
        # A mean over all rounds and seeds: there is no deviation to draw a band of.
        return Spread(method.trials, math.nan)

    return drawable_charts(
        [
            Chart(
                title=f"{metric.title.capitalize()} against {parameter}",
                x_label=parameter,
                y_label=axis_label(metric),
                series=_against(comparison, parameter, score),
                note="Band: one deviation over seeds.",
                # A line is a family here, not one of the methods of the page's legend.
                keys=True,
            ),
            Chart(
                title=f"Trials a step against {parameter}",
                x_label=parameter,
                y_label="trials",
                series=_against(comparison, parameter, trials),
                keys=True,
            ),
        ]
    )


def varied_parameter(comparison: Comparison) -> str | None:
    """What every method of the study has one value of; None where there is no such thing."""
    names = {tuple(method.varied) for method in comparison.methods}
    # One point is no curve, and two parameters at once have no axis.
    if len(comparison.methods) < 2 or len(names) != 1:
        return None
    parameters = names.pop()
    if len(parameters) != 1:
        return None
    return parameters[0]


def _against(
    comparison: Comparison,
    parameter: str,
    score: Callable[[MethodSummary], Spread],
) -> tuple[Series, ...]:
    """A line for every family of methods."""
    families: dict[str, list[MethodSummary]] = {}
    for method in comparison.methods:
        families.setdefault(method.family, []).append(method)
    lines = []
    for index, (name, methods) in enumerate(families.items()):
        # By value: the study's file may list them in any order, and a line must not go back.
        ordered = sorted(methods, key=lambda method: method.varied[parameter])
        spreads = [score(method) for method in ordered]
        line = Series(
            name=name,
            x=[method.varied[parameter] for method in ordered],
            y=[s.mean for s in spreads],
            style=line_style(index),
            band=Band(
                low=[s.mean - s.std for s in spreads],
                high=[s.mean + s.std for s in spreads],
            ),
        )
        lines.append(line)
    return tuple(lines)
