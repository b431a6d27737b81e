"""From the runs of a finished match to its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedstep.core.errors import InputError
from fedstep.leaderboard.match import Match
from fedstep.leaderboard.outcome import MatchOutcome, SeedOutcome, Spending, TuningOutcome
from fedstep.run.columns import MetricInfo, metric_infos
from fedstep.run.folder import MODEL, StoredRun, read_mark, read_run
from fedstep.run.history import Run
from fedstep.run.packed import PACKED_DIGITS
from fedstep.study.choices import Choice, read_choices
from fedstep.study.kept import folder_of
from fedstep.study.plan import Job

UNKNOWN = "unknown"


def gather_outcome(match: Match, home: Path, jobs: Sequence[Job]) -> MatchOutcome:
    """The outcome of a match whose runs are finished, from the folder of its study."""
    study = match.study()
    choice = read_choices(home)[match.entry.title]
    stored = [finished_run(job, home) for job in jobs]
    metric = metric_infos(stored[0].spec)[0]
    runs = []
    for job, run in zip(jobs, stored, strict=True):
        runs.append(seed_outcome(job, home, run, metric))
    trials: Sequence[Job] = ()
    if choice.scores:
        trials = study.trials(match.entry.method)
    return MatchOutcome(
        track=match.track,
        entry=match.entry,
        digest=match.digest,
        metric=metric,
        tuning=_tuning_outcome(match, home, choice, trials),
        runs=runs,
    )


def _tuning_outcome(
    match: Match,
    home: Path,
    choice: Choice,
    trials: Sequence[Job],
) -> TuningOutcome:
    spent = Spending(0, 0, 0)
    # from the trials' own rows: what searches cost is known only there
    for job in trials:
        spent += _whole_run(Run(job.method, finished_run(job, home).rows))
    return TuningOutcome(
        seed=match.tuning_seed,
        spec=choice.spec,
        spent=spent,
        scores=choice.scores,
    )


def _whole_run(run: Run) -> Spending:
    return Spending(
        rounds=len(run.rows),
        gradients=_short(run.gradients[-1]),
        megabytes=_short(run.bytes[-1] / 1e6),
    )


def seed_outcome(
    job: Job,
    home: Path,
    stored: StoredRun,
    metric: MetricInfo,
) -> SeedOutcome:
    """What is kept of a finished run."""
    mark = read_mark(folder_of(job, home))
    assert mark is not None  # `finished_run` has refused a run that is not finished
    run = Run(job.method, stored.rows, (metric,))
    gradients = run.gradients
    traffic = run.bytes
    # by the rule of evaluation: a null in an evaluated round says that it was not finite
    places = []
    for place, row in enumerate(stored.rows):
        is_due = row["round"] % job.setting.every == 0
        if is_due or place == len(stored.rows) - 1:
            places.append(place)
    scores: list[float | None] = []
    for place in places:
        score = stored.rows[place].get(metric.name)
        if score is not None:
            score = _short(score)
        scores.append(score)
    return SeedOutcome(
        seed=job.seed,
        run=job.digest,
        model=mark.sha256[MODEL],
        partition=str(stored.spec.get("partition", UNKNOWN)),
        cpu=str(stored.spec.get("cpu", UNKNOWN)),
        versions=dict(stored.spec.get("versions", {})),
        rounds=[int(stored.rows[place]["round"]) for place in places],
        scores=scores,
        gradients=[_short(gradients[place]) for place in places],
        megabytes=[_short(traffic[place] / 1e6) for place in places],
    )


def finished_run(job: Job, home: Path) -> StoredRun:
    """A run of the match; one that is not finished is refused."""
    stored = read_run(folder_of(job, home), job.digest)
    if stored is None or not stored.done:
        raise InputError(f"{folder_of(job, home)}: not finished; run the same command again")
    return stored


def _short(value: float) -> float:
    """As in packed results: more digits than anyone reads."""
    return float(f"{value:.{PACKED_DIGITS}g}")
