"""Bring a match to its end, or let one of its seeds run again."""

from __future__ import annotations

from pathlib import Path

from fedstep.analysis.verdict import Machine, Verdict, score_verdict
from fedstep.leaderboard.gather import finished_run, gather_outcome, seed_outcome
from fedstep.leaderboard.match import Match
from fedstep.leaderboard.outcome import (
    MatchOutcome,
    SeedOutcome,
    outcome_path,
    read_outcome,
    write_outcome,
)
from fedstep.leaderboard.standing import standing_of
from fedstep.study.plan import Job
from fedstep.study.pool import run_all
from fedstep.study.study_text import study_text
from fedstep.study.whole import open_home, run_whole


def play(
    match: Match,
    home: Path,
    data: Path | None,
    workers: int = 1,
) -> MatchOutcome:
    """Tune, run every seed, and write the outcome; what is there already is not done again."""
    path = outcome_path(home, match)
    if path.exists():
        before = read_outcome(path)
        # the same rules have the same runs: the folder with them need not be there any more
        if before.digest == match.digest:
            return before
    study = match.study()
    # a folder beside the file: `fedstep compare` and `report` open it as any study
    folder = path.with_suffix("")
    open_home(study, folder, study_text(study).encode())
    jobs = run_whole(study, folder, data, workers)
    outcome = gather_outcome(match, folder, jobs)
    write_outcome(path, outcome)
    return outcome


def replay(
    outcome: MatchOutcome,
    number: int,
    home: Path,
    data: Path | None,
    workers: int = 1,
) -> Verdict:
    """Run the seed with this number (from 0) again, with what tuning chose, and compare."""
    recorded = outcome.runs[number]
    job = Job(outcome.track.setting, outcome.tuning.spec, recorded.seed)
    # tuning is not done again: its choice is part of the result
    run_all([job], [outcome.entry.title], home, data, workers)
    again = seed_outcome(job, home, finished_run(job, home), outcome.metric)
    return judge(outcome, recorded, again)


def judge(outcome: MatchOutcome, recorded: SeedOutcome, again: SeedOutcome) -> Verdict:
    """The same bits where they can be the same, else a score within the spread of the seeds."""
    if again.model == recorded.model:
        return Verdict(True, f"seed {recorded.seed}: the same bits, model {recorded.model[:16]}")
    machine = Machine(recorded.cpu, recorded.versions)
    if machine.is_like_this_one():
        return Verdict(
            False,
            f"seed {recorded.seed}: other bits on the same kind of CPU ({recorded.cpu}): "
            f"model {again.model[:16]}, recorded {recorded.model[:16]}",
        )
    window = outcome.track.window
    return score_verdict(
        f"seed {recorded.seed}: {outcome.metric.title}",
        recorded.final(window),
        again.final(window),
        standing_of(outcome).score.std,
        machine,
    )
