"""The methods of a study side by side, over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from fedstep.analysis.group import Group, primary_metric
from fedstep.analysis.results import Results
from fedstep.analysis.statistics import Difference, Spread, difference
from fedstep.analysis.summary import MethodSummary, best, by_seed, summarise
from fedstep.core.errors import InputError, unknown
from fedstep.run.columns import MetricInfo
from fedstep.run.history import Run

NEAR = 0.05  # of the best, which a target may miss


@dataclass(frozen=True)
class Comparison:
    """All methods by one metric, the target of their costs and the method they are held against."""

    methods: tuple[MethodSummary, ...]  # in the study's order
    target: float  # of the metric, that costs are counted to
    reference: str  # label
    metric: MetricInfo


def compare(
    results: Results,
    target: float | None = None,
    reference: str | None = None,
) -> Comparison:
    """A summary of every method.

    The target is 95 % of the best mean score unless given, the reference the best method.
    """
    return compare_groups(
        results.groups,
        results.study.setting.rounds,
        target,
        reference,
    )


def compare_groups(
    groups: Sequence[Group],
    rounds: int,
    target: float | None = None,
    reference: str | None = None,
) -> Comparison:
    """The same of methods without a study around them; rounds: those of one run."""
    metric = primary_metric(groups)
    _check_target(target, metric)

    def score(run: Run) -> float:
        return run.final(metric.name)

    scores = {}
    means = {}
    for group in groups:
        seeds = by_seed(group, score)
        scores[group.label] = seeds
        means[group.label] = Spread.of(list(seeds.values())).mean
    leader = max(means, key=lambda label: metric.rank(means[label]))
    if reference is None:
        reference = leader
    if reference not in scores:
        labels = list(scores)
        raise InputError(unknown("method", reference, labels))
    if target is None:
        target = near(means[leader], metric)
    methods = []
    for group in groups:
        # a difference of the reference to itself is 0 by construction and says nothing
        gap: Difference | None = None
        if group.label != reference:
            gap = difference(scores[group.label], scores[reference])
        methods.append(
            summarise(
                group,
                metric,
                target,
                rounds,
                gap,
            )
        )
    return Comparison(
        tuple(methods),
        target,
        reference,
        metric,
    )


def near(value: float, metric: MetricInfo) -> float:
    """A value a little worse than the one given: 95 % of an accuracy, 105 % of an error."""
    # of a negative value the larger multiple is the smaller number
    worse_is_smaller = metric.higher_is_better == (value >= 0)
    if worse_is_smaller:
        return (1 - NEAR) * value
    return (1 + NEAR) * value


def common_target(runs: Sequence[Run]) -> float:
    """A value that the better runs reach: near the best evaluation of all."""
    metric = runs[0].metric
    tops = []
    for run in runs:
        top = best(run, metric)
        if top is not None:
            tops.append(top.value)
    # nothing was evaluated: NaN, which no run reaches
    if not tops:
        return nan
    best_of_all = max(tops, key=metric.rank)
    return near(best_of_all, metric)


def _check_target(target: float | None, metric: MetricInfo) -> None:
    if target is None:
        return
    # 80 where 0.8 is meant is the commonest slip, and would never be reached
    if metric.percent and not 0 < target <= 1:
        raise InputError(f"target {target:g}: give {_one(metric)} in (0, 1], such as 0.8")
    if not math.isfinite(target):
        raise InputError(f"target {target:g}: give {_one(metric)} that is finite")


def _one(metric: MetricInfo) -> str:
    article = "a"
    if metric.title[0] in "aeiou":
        article = "an"
    return f"{article} {metric.title}"
