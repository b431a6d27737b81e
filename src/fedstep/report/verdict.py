"""The outcome of a comparison in a sentence or two, with its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from fedstep.analysis.compare import Comparison
from fedstep.analysis.statistics import Difference, Spread
from fedstep.analysis.summary import MethodSummary
from fedstep.report.metric_text import metric_gap, metric_spread, metric_value, with_unit
from fedstep.run.columns import MetricInfo


def verdict(comparison: Comparison) -> str:
    """Who came first, how far ahead of the next, and who never got to the target."""
    metric = comparison.metric
    scored = []
    for method in comparison.methods:
        if not isnan(method.score.mean):
            scored.append(method)
    if not scored:
        return f"No {metric.title} was measured."
    # Best first, whichever way is better.
    ranked = sorted(
        scored,
        key=lambda method: -metric.rank(method.score.mean),
    )
    if len(comparison.methods) == 1:
        return _single(ranked[0], metric)
    sentences = [
        _winner(ranked[0], metric),
        *_runner_up(ranked, comparison),
        *_stragglers(comparison),
    ]
    return " ".join(sentences)


def _single(method: MethodSummary, metric: MetricInfo) -> str:
    """One method has nothing to be compared with."""
    score = _spread_with_unit(method.score, metric)
    best = _spread_with_unit(method.best, metric)
    return (
        f"{method.label} reached {score} {metric.title} "
        f"(best {best} at round {method.best_round:.0f})."
    )


def _winner(method: MethodSummary, metric: MetricInfo) -> str:
    extreme = "Lowest"
    if metric.higher_is_better:
        extreme = "Highest"
    # The number of seeds beside the number they gave: one seed proves little.
    seeds = f"{method.seeds} seed"
    if method.seeds > 1:
        seeds += "s"
    score = _spread_with_unit(method.score, metric)
    return f"{extreme} {metric.title}: {method.label}, {score} ({seeds})."


def _runner_up(ranked: Sequence[MethodSummary], comparison: Comparison) -> list[str]:
    """Nothing where the differences are taken to another method than the best."""
    if ranked[0].label != comparison.reference:
        return []
    # A method that no seed is shared with has no difference; the one after it may have.
    for method in ranked[1:]:
        if method.difference is not None:
            return _lead(method.label, method.difference, comparison.metric)
    return []


def _lead(nearest: str, difference: Difference, metric: MetricInfo) -> list[str]:
    # Said with its interval: a lead that the seeds cannot tell from none is not a lead.
    gap = metric_gap(difference, metric)
    unit = ""
    # Of two shares: per cent would be of the other share.
    if metric.percent:
        unit = " points"
    sentences = [f"Next: {nearest}, {gap}{unit}."]
    if difference.low <= 0 <= difference.high:
        sentences.append("The interval contains 0: these seeds do not tell the two apart.")
    return sentences


def _stragglers(comparison: Comparison) -> list[str]:
    # Whoever never got there would be missing from a comparison of costs alone.
    never = [method.label for method in comparison.methods if not method.reached]
    if not never:
        return []
    metric = comparison.metric
    target = with_unit(metric_value(comparison.target, metric), metric)
    names = ", ".join(never)
    return [f"Never at {target}: {names}."]


def _spread_with_unit(values: Spread, metric: MetricInfo) -> str:
    words = metric_spread(values, metric)
    return with_unit(words, metric)
