"""Numbers of a method in words: what stands in the cells of a comparison."""

from __future__ import annotations

from collections.abc import Callable
from math import floor, inf, isnan

from fedstep.analysis.summary import MethodSummary
from fedstep.report.metric_text import NONE


def seeds_text(method: MethodSummary) -> str:
    """How many seeds; how many of them are not done, where some are not."""
    if method.unfinished:
        return f"{method.seeds}, {method.unfinished} unfinished"
    return str(method.seeds)


def p_value_text(method: MethodSummary) -> str:
    """Of the difference to the reference."""
    difference = method.difference
    if difference is None:
        return NONE
    # One pair has two ways to be signed, both as far from 0: its p says nothing.
    if difference.pairs < 2 or isnan(difference.p):
        return NONE
    return f"{difference.p:.3g}"


def published_text(key: str) -> Callable[[MethodSummary], str]:
    """What was published under this key, for any method."""

    def cell(method: MethodSummary) -> str:
        values = method.published.get(key, ())
        # As the study's file has them: rounding would be a claim about another's numbers.
        written = [f"{value:g}" for value in values]
        return " ± ".join(written) or NONE

    return cell


def trials_text(method: MethodSummary) -> str:
    """Trials a step; a method that does not search has none."""
    if not method.trials:
        return NONE
    return f"{method.trials:.2f}"


def failed_text(method: MethodSummary) -> str:
    """Searches that found no step; 0 only for those who search."""
    if not method.trials:
        return NONE
    return f"{method.failed:,.0f}"


def count_text(value: float) -> str:
    """Rounds, gradients or megabytes; a median may be infinite or lie between two numbers."""
    if isnan(value):
        return NONE
    if value == inf:
        return "never"
    # Whole numbers and large ones; of 0.25 MB the decimals are all there is.
    whole = value == floor(value)
    if whole or value >= 10:
        return f"{value:,.0f}"
    return f"{value:.2g}"
