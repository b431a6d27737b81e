"""How an entry stands on a track: what it spent to reach the target, tuning counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, nan

from fedstep.analysis.curves import Curve
from fedstep.analysis.statistics import Spread
from fedstep.leaderboard.outcome import MatchOutcome, Spending

NEVER = Spending(inf, inf, inf)


@dataclass(frozen=True)
class Standing:
    """An outcome in numbers."""

    outcome: MatchOutcome
    reach: Spending  # of a run, to the target; infinite: never
    total: Spending  # with tuning
    score: Spread  # over seeds, of the last window
    place: int = 0  # among the entries of its track, from 1

    @property
    def reached(self) -> bool:
        return self.reach.rounds < inf

    @property
    def spent(self) -> Spending:
        """All that was paid: to the target, or the whole budget where it was never reached."""
        if self.reached:
            return self.total
        return self.outcome.tuning.spent + _spent_at(self.outcome, -1)


def standing_of(outcome: MatchOutcome) -> Standing:
    """The first evaluated round at which the window's mean, over seeds too, is at the target.

        w_t = mean over the last `window` evaluations and all seeds;  w_t at least as good as target

    A seed that is not finite makes the mean so: it must not be dropped in silence.
    """
    track = outcome.track
    reach = NEVER
    # the first window that is full: a mean of fewer would be an easier target
    for end in range(track.window, len(outcome.runs[0].rounds) + 1):
        value = _window_mean(outcome, end)
        if outcome.metric.rank(value) >= outcome.metric.rank(track.target):
            reach = _spent_at(outcome, end - 1)
            break
    return Standing(
        outcome=outcome,
        reach=reach,
        total=outcome.tuning.spent + reach,
        score=Spread.of([run.final(track.window) for run in outcome.runs]),
    )


def ranked(outcomes: Iterable[MatchOutcome]) -> list[Standing]:
    """By all rounds to the target; those who never reach it follow, by their final score."""
    standings = sorted(map(standing_of, outcomes), key=_order)
    placed: list[Standing] = []
    for number, standing in enumerate(standings, start=1):
        place = number
        # who is equal in what counts shares a place
        if placed and _same(placed[-1], standing):
            place = placed[-1].place
        placed.append(replace(standing, place=place))
    return placed


def mean_curve(outcome: MatchOutcome) -> Curve:
    """The metric by round: mean over seeds and one sample deviation either side."""
    xs: list[float] = []
    spreads: list[Spread] = []
    for place, number in enumerate(outcome.runs[0].rounds):
        xs.append(number)
        spreads.append(Spread.of(_scores_at(outcome, place)))
    scale = 1
    if outcome.metric.percent:
        scale = 100
    return Curve(
        x=tuple(xs),
        y=tuple(scale * spread.mean for spread in spreads),
        low=tuple(scale * (spread.mean - spread.std) for spread in spreads),
        high=tuple(scale * (spread.mean + spread.std) for spread in spreads),
    )


def _window_mean(outcome: MatchOutcome, end: int) -> float:
    values: list[float] = []
    for place in range(end - outcome.track.window, end):
        values += _scores_at(outcome, place)
    return Spread.of(values).mean


def _scores_at(outcome: MatchOutcome, place: int) -> list[float]:
    scores = []
    for run in outcome.runs:
        score = run.scores[place]
        if score is None:
            score = nan
        scores.append(score)
    return scores


def _spent_at(outcome: MatchOutcome, place: int) -> Spending:
    """Means over seeds: trials, and so gradients, differ between them."""
    runs = outcome.runs
    return Spending(
        rounds=runs[0].rounds[place],
        gradients=_mean([run.gradients[place] for run in runs]),
        megabytes=_mean([run.megabytes[place] for run in runs]),
    )


def _mean(values: Sequence[float]) -> float:
    return Spread.of(values).mean


def _order(standing: Standing) -> tuple[float, float]:
    # infinite rounds are equal to each other: then the score decides
    rank = standing.outcome.metric.rank(standing.score.mean)
    return (standing.total.rounds, -rank)


def _same(one: Standing, other: Standing) -> bool:
    if one.reached or other.reached:
        return one.total.rounds == other.total.rounds
    # two that diverged are equally bad
    both_failed = isnan(one.score.mean) and isnan(other.score.mean)
    return both_failed or one.score.mean == other.score.mean
