"""The outcome of a comparison in one sentence, with its uncertainty, and the details of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from fedstep.analysis.compare import Comparison
from fedstep.analysis.statistics import Difference, Spread
from fedstep.analysis.summary import MethodSummary
from fedstep.report.metric_text import metric_gap, metric_spread, metric_value, with_unit
from fedstep.run.columns import MetricInfo


def verdict(comparison: Comparison) -> str:
    """Who came first, and whether the seeds tell it apart from the next: one sentence."""
    ranked = _ranked(comparison)
    metric = comparison.metric
    if not ranked:
        return f"No {metric.title} was measured."
    if len(comparison.methods) == 1:
        return _single(ranked[0], metric)
    sentence = _winner(ranked[0], metric)
    nearest = _nearest(ranked, comparison)
    # Said at once: a lead that the seeds cannot tell from none is not a lead.
    if nearest is not None and _contains_zero(nearest.difference):
        sentence += f", which these seeds do not tell apart from {nearest.label}"
    return sentence + "."


def verdict_details(comparison: Comparison) -> str:
    """How far ahead of the next, with its interval, and who never got to the target."""
    ranked = _ranked(comparison)
    if len(comparison.methods) == 1 or not ranked:
        return ""
    sentences = [
        *_runner_up(_nearest(ranked, comparison), comparison.metric),
        *_stragglers(comparison),
    ]
    return " ".join(sentences)


def _ranked(comparison: Comparison) -> list[MethodSummary]:
    """Those with a score, best first, whichever way is better."""
    scored = [method for method in comparison.methods if not isnan(method.score.mean)]
    return sorted(
        scored,
        key=lambda method: -comparison.metric.rank(method.score.mean),
    )


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
    return f"{extreme} {metric.title}: {method.label}, {score} ({seeds})"


def _nearest(ranked: Sequence[MethodSummary], comparison: Comparison) -> MethodSummary | None:
    """The next after the best; None where differences are taken to another method than the best."""
    if ranked[0].label != comparison.reference:
        return None
    # A method that no seed is shared with has no difference; the one after it may have.
    for method in ranked[1:]:
        if method.difference is not None:
            return method
    return None


def _runner_up(nearest: MethodSummary | None, metric: MetricInfo) -> list[str]:
    if nearest is None:
        return []
    gap = metric_gap(nearest.difference, metric)
    unit = ""
    # Of two shares: per cent would be of the other share.
    if metric.percent:
        unit = " points"
    sentences = [f"Next: {nearest.label}, {gap}{unit}."]
    if _contains_zero(nearest.difference):
        sentences.append("The interval contains 0.")
    return sentences


def _contains_zero(difference: Difference | None) -> bool:
    return difference is not None and difference.low <= 0 <= difference.high


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
