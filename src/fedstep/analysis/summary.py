"""A method over its seeds in numbers: the one place where runs are summed up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from statistics import median

from fedstep.analysis.group import Group
from fedstep.analysis.statistics import Difference, Spread
from fedstep.run.columns import HELDOUT, LAST, MetricInfo
from fedstep.run.history import Run


@dataclass(frozen=True)
class Reach:
    """What a run spent until its metric first reached a target; infinite where it never did."""

    rounds: float = inf
    gradients: float = inf  # gradient-equivalents
    megabytes: float = inf  # both ways


@dataclass(frozen=True)
class Best:
    """The best evaluation of a run and the first round that has it."""

    value: float
    round: float


@dataclass(frozen=True)
class MethodSummary:
    """A method over its seeds, by one metric. Costs are medians in which `never` is infinite."""

    label: str
    seeds: int  # that have begun
    unfinished: int  # of them
    score: Spread  # mean of the last tenth of the evaluated rounds
    last: Spread  # the same at the last iterate
    best: Spread  # evaluation of a run
    best_round: float  # median over seeds
    heldout: Spread  # as `score`, of clients that never took part
    train_loss: Spread  # over all clients, at the last evaluated round
    # standard deviation by round over the last quarter of the evaluated rounds, mean over seeds
    swing: float
    reach: Reach
    reached: int  # seeds that got to the target
    trials: float  # mean a searched step; 0 where nothing was searched
    failed: float  # searches a run
    tuning_rounds: int
    total_rounds: int  # of tuning and one run
    difference: Difference | None  # to the reference, of `score`; None for the reference itself
    published: Mapping[str, Sequence[float]]
    varied: Mapping[str, float]  # what the study varies, such as c, and its value here
    family: str  # the method that is varied


def summarise(
    group: Group,
    metric: MetricInfo,
    target: float,
    rounds: int,
    difference: Difference | None,
) -> MethodSummary:
    """The numbers of one method; rounds: those of one run."""
    tops = []
    for run in group.runs:
        top = best(run, metric)
        if top is not None:
            tops.append(top)
    reaches = [reach(run, metric, target) for run in group.runs]
    # medians, which a seed that never reached the target does not make infinite
    middle_reach = Reach(
        rounds=median(r.rounds for r in reaches),
        gradients=median(r.gradients for r in reaches),
        megabytes=median(r.megabytes for r in reaches),
    )
    failed = [sum(run.column("failed")) for run in group.runs]
    return MethodSummary(
        label=group.label,
        seeds=len(group.runs),
        unfinished=len(group.unfinished),
        score=spread_of(group, lambda run: run.final(metric.name)),
        last=spread_of(group, lambda run: run.final(LAST + metric.name)),
        best=Spread.of([top.value for top in tops]),
        best_round=_median([top.round for top in tops]),
        heldout=spread_of(group, lambda run: run.final(HELDOUT + metric.name)),
        train_loss=_train_loss(group, metric),
        swing=spread_of(group, lambda run: swing(run, metric)).mean,
        reach=middle_reach,
        reached=sum(r.rounds < inf for r in reaches),
        trials=_trials(group),
        failed=sum(failed) / len(group.runs),
        tuning_rounds=group.choice.rounds,
        total_rounds=group.choice.rounds + rounds,
        difference=difference,
        published=group.published,
        varied=group.varied,
        family=group.family,
    )


def by_seed(
    group: Group,
    score: Callable[[Run], float],
) -> dict[int, float]:
    """A score of every run that has it."""
    scores = {}
    for seed, run in zip(group.seeds, group.runs, strict=True):
        value = score(run)
        # a seed without a value is left out of the pairs instead of spoiling them
        if not math.isnan(value):
            scores[seed] = value
    return scores


def spread_of(group: Group, score: Callable[[Run], float]) -> Spread:
    """Mean and deviation of a score over the seeds that have it."""
    scores = by_seed(group, score)
    return Spread.of(list(scores.values()))


def reach(
    run: Run,
    metric: MetricInfo,
    target: float,
) -> Reach:
    """The cost of the first evaluated round that is as good as the target."""
    # NaN ranks below all, so that without this every round would reach it
    if math.isnan(target):
        return Reach()
    for place, value in enumerate(run.column(metric.name)):
        # by rank, which knows whether high or low is good
        if metric.rank(value) >= metric.rank(target):
            return Reach(
                rounds=run.rounds[place],
                gradients=run.gradients[place],
                megabytes=run.bytes[place] / 1e6,
            )
    return Reach()


def best(run: Run, metric: MetricInfo) -> Best | None:
    """The best evaluation; None where there is none."""
    top = None
    for value, number in zip(run.column(metric.name), run.rounds, strict=True):
        if math.isnan(value):
            continue
        # `>`, so that of equal values the first round counts
        if top is None or metric.rank(value) > metric.rank(top.value):
            top = Best(value, number)
    return top


def swing(run: Run, metric: MetricInfo) -> float:
    """How much the metric moves from evaluation to evaluation at the end: its deviation over the
    last quarter.
    """
    values = run.evaluated(metric.name)
    # two at least: a deviation of one value is none
    quarter = max(2, len(values) // 4)
    at_the_end = values[-quarter:]
    return Spread.of(at_the_end).std


def _train_loss(group: Group, metric: MetricInfo) -> Spread:
    losses = []
    for run in group.runs:
        place = _last_evaluated(run, metric)
        if place is not None:
            losses.append(run.column("train_loss")[place])
    # NaN where one seed's loss is not finite: a mean of the others would hide it
    return Spread.of(losses)


def _last_evaluated(run: Run, metric: MetricInfo) -> int | None:
    last = None
    for place, row in enumerate(run.rows):
        has_metric = row.get(metric.name) is not None
        # null in an evaluated row means that it was not finite: the row counts by either
        has_loss = row.get("train_loss") is not None
        if has_metric or has_loss:
            last = place
    return last


def _trials(group: Group) -> float:
    """Rounds without a search do not count: their 0 is no number of trials."""
    searched = []
    for run in group.runs:
        searched += [trials for trials in run.column("trials") if trials > 0]
    if not searched:
        return 0.0
    return sum(searched) / len(searched)


def _median(values: Sequence[float]) -> float:
    if not values:
        return nan
    return median(values)
