"""The methods of a study side by side, over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from statistics import median

from fedstep.analysis.results import Group, Results
from fedstep.analysis.statistics import Difference, Spread, difference
from fedstep.analysis.summary import Run
from fedstep.core.errors import InputError, unknown


@dataclass(frozen=True)
class Reach:
    """What a run spent until its accuracy first reached a target; infinite where it never did."""

    rounds: float = inf
    gradients: float = inf
    megabytes: float = inf


@dataclass(frozen=True)
class Line:
    """A method over its seeds. Accuracies lie in [0, 1]; those to a target are medians in which `never` is infinite."""

    label: str
    seeds: int
    unfinished: int
    accuracy: Spread  # mean of the last tenth of the evaluated rounds
    last: Spread  # the same at the last iterate
    best: Spread
    best_round: float  # median over seeds
    heldout: Spread
    train_loss: Spread  # over all clients, at the last evaluated round
    swing: float  # standard deviation by round over the last quarter of the evaluated rounds, mean over seeds
    reach: Reach
    reached: int  # seeds that got to the target
    trials: float  # mean a searched step; 0 where nothing was searched
    failed: float  # searches a run
    tuning_rounds: int
    total_rounds: int  # of tuning and one run
    difference: Difference | None  # to the reference, of `accuracy`; None for the reference itself
    published: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Comparison:
    """All methods, the target accuracy of their costs and the method they are held against."""

    lines: tuple[Line, ...]
    target: float
    reference: str


def compare(
    results: Results, target: float | None = None, reference: str | None = None
) -> Comparison:
    """A line for every method; the target is 95 % of the best mean accuracy unless given, the reference the best method."""
    return compare_groups(results.groups, results.study.setting.rounds, target, reference)


def compare_groups(
    groups: Sequence[Group],
    rounds: int,
    target: float | None = None,
    reference: str | None = None,
) -> Comparison:
    """The same of methods without a study around them; rounds: those of one run."""
    if target is not None and not 0 < target <= 1:
        raise InputError(f"target {target:g}: give an accuracy in (0, 1], such as 0.8")
    finals = {g.label: by_seed(g, final) for g in groups}
    means = {label: Spread.of(list(of.values())).mean for label, of in finals.items()}
    best = max(means, key=lambda label: -inf if math.isnan(means[label]) else means[label])
    if reference is not None and reference not in finals:
        raise InputError(unknown("method", reference, list(finals)))
    reference = best if reference is None else reference
    target = 0.95 * means[best] if target is None else target
    gaps = {
        label: None if label == reference else difference(of, finals[reference])
        for label, of in finals.items()
    }
    lines = tuple(line(g, target, rounds, gaps[g.label]) for g in groups)
    return Comparison(lines, target, reference)


def line(group: Group, target: float, rounds: int, gap: Difference | None) -> Line:
    """The numbers of one method."""
    reaches = [reach(run, target) for run in group.runs]

    def middle(pick: Callable[[Reach], float]) -> float:
        return median(pick(r) for r in reaches)

    def spread(score: Callable[[Run], float]) -> Spread:
        return Spread.of(list(by_seed(group, score).values()))

    tops = [_best(run) for run in group.runs if scored(run)]
    ends = [
        run.column("train_loss")[last]
        for run in group.runs
        if (last := _last_evaluated(run)) is not None
    ]
    trials = [t for run in group.runs for t in run.column("trials") if t > 0]
    return Line(
        label=group.label,
        seeds=len(group.runs),
        unfinished=len(group.unfinished),
        accuracy=spread(final),
        last=spread(lambda run: final(run, "last_accuracy")),
        best=Spread.of([value for value, _ in tops]),
        best_round=median(at for _, at in tops) if tops else nan,
        heldout=spread(lambda run: final(run, "heldout_accuracy")),
        train_loss=Spread.of(
            ends
        ),  # NaN where one seed's loss is not finite: a mean of the others would hide it
        swing=spread(swing).mean,
        reach=Reach(
            middle(lambda r: r.rounds), middle(lambda r: r.gradients), middle(lambda r: r.megabytes)
        ),
        reached=sum(r.rounds < inf for r in reaches),
        trials=sum(trials) / len(trials) if trials else 0.0,
        failed=sum(sum(run.column("failed")) for run in group.runs) / len(group.runs),
        tuning_rounds=group.choice.rounds,
        total_rounds=group.choice.rounds + rounds,
        difference=gap,
        published=group.published,
    )


def by_seed(group: Group, score: Callable[[Run], float]) -> dict[int, float]:
    """A score of every run that has it."""
    scores = {seed: score(run) for seed, run in zip(group.seeds, group.runs, strict=True)}
    return {seed: value for seed, value in scores.items() if not math.isnan(value)}


def scored(run: Run, column: str = "accuracy") -> list[float]:
    """The evaluated values of a column."""
    return [v for v in run.column(column) if not math.isnan(v)]


def final(run: Run, column: str = "accuracy") -> float:
    """The mean of the last tenth of the evaluated rounds, at least one."""
    values = scored(run, column)
    return Spread.of(values[-max(1, len(values) // 10) :]).mean


def swing(run: Run) -> float:
    """How much the accuracy moves from evaluation to evaluation at the end: its deviation over the last quarter."""
    values = scored(run)
    return Spread.of(values[-max(2, len(values) // 4) :]).std


def reach(run: Run, target: float) -> Reach:
    """The cost of the first evaluated round at or above the target."""
    hit = next((i for i, a in enumerate(run.column("accuracy")) if a >= target), None)
    return (
        Reach() if hit is None else Reach(run.rounds[hit], run.gradients[hit], run.bytes[hit] / 1e6)
    )


def _best(run: Run) -> tuple[float, float]:
    """The highest accuracy and the first round that has it."""
    value, back = max(
        (a, -r)
        for a, r in zip(run.column("accuracy"), run.rounds, strict=True)
        if not math.isnan(a)
    )
    return value, -back


def _last_evaluated(run: Run) -> int | None:
    seen = (
        i
        for i, row in enumerate(run.rows)
        if row.get("accuracy") is not None or row.get("train_loss") is not None
    )
    return max(seen, default=None)
