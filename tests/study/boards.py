"""Results of a leaderboard made of formulas: no run behind them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedstep.leaderboard.entry import BoardEntry
from fedstep.leaderboard.match import Match
from fedstep.leaderboard.outcome import (
    MatchOutcome,
    SeedOutcome,
    Spending,
    TuningOutcome,
    outcome_path,
    write_outcome,
)
from fedstep.leaderboard.track import Track, TrackTuning
from fedstep.run.columns import ACCURACY
from fedstep.study.plan import Setting

ROUNDS = 20
TRACK = Track(
    name="hills",
    title="Hills",
    text="For tests.",
    target=0.8,
    window=3,
    tuning=TrackTuning(rounds=5, clients=2),
    setting=Setting("synthetic", "linear", rounds=ROUNDS, every=1),
)
AVG = BoardEntry("avg", "Average", "fedavg(step={step})", "we", "MIT", {"step": [0.1, 1.0]})
SEARCH = BoardEntry("search", "Search", "fedsls", "we", "MIT")


def scores(top, seed, rounds):
    """A curve that rises to `top`."""
    g = np.random.default_rng(seed)
    rise = 1 - np.exp(-np.arange(1, rounds + 1) / 3)
    return [float(v) for v in top * rise + g.normal(0, 0.002, rounds)]


def outcome(entry, top, track=TRACK):
    """A result that ends near `top`, noise of the seeds included."""
    match = Match(track, entry)
    runs = []
    setting = track.setting
    budget = range(1, setting.rounds + 1)
    rounds = [r for r in budget if r % setting.every == 0 or r == setting.rounds]
    for seed in match.seeds:
        runs.append(
            SeedOutcome(
                seed=seed,
                run=f"{seed:016x}",
                model=f"{seed:064x}",
                partition="0" * 64,
                cpu="x86_64 AVX2",
                versions={"fedstep": "0.1.0", "torch": "2.4.0"},
                rounds=rounds,
                scores=scores(top, seed, len(rounds)),
                gradients=[100.0 * r for r in rounds],
                megabytes=[0.5 * r for r in rounds],
            )
        )
    points = entry.method.candidates()
    spent = Spending(0, 0, 0)
    values = {}
    if entry.grid:
        spent = Spending(track.tuning.rounds * len(points), 500.0 * len(points), 2.5 * len(points))
        values = dict.fromkeys(points, 0.5)
    tuning = TuningOutcome(match.tuning_seed, points[0], spent, values)
    return MatchOutcome(track, entry, match.digest, ACCURACY, tuning, runs)


def with_scores(made, columns):
    """The same result with other curves."""
    runs = [replace(run, scores=list(s)) for run, s in zip(made.runs, columns, strict=True)]
    return replace(made, runs=runs)


def write(home, *outcomes):
    for each in outcomes:
        write_outcome(outcome_path(home, each.match), each)
