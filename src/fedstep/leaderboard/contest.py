"""Bring a match to its end, or let one of its seeds run again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
from fedstep.run.cpu import cpu_kind
from fedstep.run.driver import program_versions
from fedstep.study.plan import Job
from fedstep.study.pool import run_all
from fedstep.study.study_text import study_text
from fedstep.study.whole import open_home, run_whole

# Standard deviations over seeds that another machine may be away from what was measured here.
SPREADS = 3.0
LEAST_SPREAD = 0.01  # of the score: three seeds may agree by chance


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


@dataclass(frozen=True)
class Verdict:
    """What running a seed again has shown."""

    agrees: bool
    text: str


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
    torch_before = recorded.versions.get("torch")
    same_machine = cpu_kind() == recorded.cpu and program_versions()["torch"] == torch_before
    if same_machine:
        return Verdict(
            False,
            f"seed {recorded.seed}: other bits on the same kind of CPU ({recorded.cpu}): "
            f"model {again.model[:16]}, recorded {recorded.model[:16]}",
        )
    window = outcome.track.window
    before = recorded.final(window)
    now = again.final(window)
    allowed = SPREADS * standing_of(outcome).score.std
    allowed = max(allowed, LEAST_SPREAD * abs(before))
    text = (
        f"seed {recorded.seed}: {outcome.metric.title} {now:.4f}, recorded {before:.4f}, "
        f"may differ by {allowed:.4f} (recorded on {recorded.cpu} with torch {torch_before})"
    )
    # not `>`: a score that is no number agrees with nothing
    return Verdict(abs(now - before) <= allowed, text)
