"""How a number of a sentence is found in the results: each function gives another that does."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from statistics import fmean

from evidence_costs import Standing, standing, worst_tenth
from evidence_curves import (
    AVERAGED,
    OURS,
    TABLES,
    Table,
    every_whole_group,
    value_at,
    whole_groups,
)
from fedstep.analysis.curves import metric_column
from fedstep.analysis.group import Group, primary_metric
from fedstep.analysis.summary import MethodSummary
from fedstep.leaderboard.read import read_board
from fedstep.leaderboard.standing import Standing as Place
from pages import RESULTS

Number = Callable[[], str]


def task(name: str) -> Table:
    """One of the tasks of docs/evidence.md."""
    return next(table for table in TABLES if table.name == name)


def result(name: str) -> Standing:
    """How the methods of a task stand."""
    return standing(task(name))


def method(name: str, label: str) -> MethodSummary:
    """A method of a task, over its seeds."""
    return result(name).of(label)


def group(name: str, label: str) -> Group:
    """The runs of a method of a task."""
    return next(found for found in whole_groups(task(name)) if found.label == label)


def final(name: str, label: str) -> Number:
    """The mean of the last tenth of the evaluated rounds, in per cent."""
    return lambda: f"{100 * method(name, label).score.mean:.1f}"


def averaged(name: str, label: str) -> Number:
    """What a rival ends at that ships an average of its models, in per cent."""

    def found() -> str:
        label_there = label + AVERAGED
        runs = next(each for each in every_whole_group(task(name)) if each.label == label_there)
        column = primary_metric([runs]).name
        return f"{100 * fmean(run.final(column) for run in runs.runs):.1f}"

    return found


def behind(name: str, label: str, other: str) -> Number:
    """By how many points a method ends below another."""
    return lambda: f"{100 * (method(name, other).score.mean - method(name, label).score.mean):.1f}"


def at_round(name: str, label: str, number: int) -> Number:
    """The mean over seeds at a round, in per cent."""

    def found() -> str:
        runs = group(name, label)
        column = metric_column(primary_metric([runs]))
        return f"{fmean(value_at(run, column(run), number) for run in runs.runs):.1f}"

    return found


def of_seed(name: str, label: str, seed: int, number: int) -> Number:
    """One seed at a round, in per cent."""

    def found() -> str:
        runs = group(name, label)
        column = metric_column(primary_metric([runs]))
        return f"{value_at(runs.runs[seed], column(runs.runs[seed]), number):.1f}"

    return found


def worst(name: str, label: str) -> Number:
    """The mean of the tenth of the clients that fare worst, in per cent."""
    return lambda: f"{100 * worst_tenth(group(name, label), task(name)).mean:.1f}"


def reach(name: str, label: str = OURS) -> Number:
    """The rounds that a method, or the default, needs to be as good as the best rival in its end."""
    return lambda: whole(result(name).of(label).reach.rounds)


def rounds(name: str) -> Number:
    """What the best rival was given, its tuning included."""

    def found() -> str:
        best = result(name)
        tuning = best.groups[best.rival.label].choice.rounds
        return f"{task(name).rounds[-1] + tuning:,}"

    return found


def tenth(name: str) -> Number:
    """Of what the best rival was given."""
    return lambda: f"{int(rounds(name)().replace(',', '')) // 10}"


def whole(number: float) -> str:
    """A number of rounds."""
    return "never" if math.isinf(number) else f"{number:.0f}"


@cache
def places() -> dict[tuple[str, str], Place]:
    """The standings of the leaderboard by track and entry."""
    found = {}
    for shown in read_board(RESULTS / "leaderboard").tracks:
        for place in shown.standings:
            found[shown.track.name, place.outcome.entry.name] = place
    return found


def track_cost(track: str, entry: str) -> Number:
    """Rounds to the target, tuning counted."""
    return lambda: whole(places()[track, entry].total.rounds)


def track_score(track: str, entry: str) -> Number:
    """What an entry ends at, in per cent."""
    return lambda: f"{100 * places()[track, entry].score.mean:.1f}"


def track_target(track: str) -> Number:
    """What is to be reached, in per cent."""
    return lambda: f"{100 * places()[track, 'fedpace'].outcome.track.target:.1f}"
