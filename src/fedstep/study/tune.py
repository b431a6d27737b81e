"""Baselines get their step sizes from a grid, and the rounds it costs are part of the result."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

from fedstep.core.errors import InputError
from fedstep.run.columns import VALIDATION, metric_infos
from fedstep.run.files import json_bytes
from fedstep.run.folder import read_run
from fedstep.run.history import Run
from fedstep.run.listed import write_listed
from fedstep.study.choices import Choice
from fedstep.study.plan import Job, Method, Study
from fedstep.study.pool import run_all
from fedstep.study.work import folder_of


def tune(
    study: Study,
    home: Path,
    data: Path | None,
    workers: int = 1,
    ray: str | None = None,
) -> dict[str, Choice]:
    """Run every grid point that is missing and choose; methods without a grid cost nothing.

    The choice is made on the first metric, of a seed that the study does not use: on clients that
    are set aside where `tuning.clients` says so, else on test data, which favours the tuned methods.
    """
    if study.tuning.seed in study.seeds:
        raise InputError(
            f"tuning seed {study.tuning.seed} is one of the study's seeds: give another"
        )
    jobs: list[Job] = []
    labels: list[str] = []
    # all grid points in one pool: no worker waits for the last one of a method
    for method in study.methods:
        if method.grid:
            trials = study.trials(method)
            jobs += trials
            labels += [f"tuning {method.label}"] * len(trials)
    run_all(jobs, labels, home, data, workers, ray=ray)
    choices = {method.label: best_choice(study, method, home) for method in study.methods}
    rows = [asdict(choice) for choice in choices.values()]
    write_listed(home / "tuning.json", json_bytes(rows))
    return choices


def best_choice(
    study: Study,
    method: Method,
    home: Path,
) -> Choice:
    """The best grid point by the mean of the first metric over the last tenth of its rounds."""
    if not method.grid:
        return Choice(method.label, method.spec, 0, {})
    trials = {job.method: _trial(job, home) for job in study.trials(method)}
    chosen_by = ""
    if study.tuning.clients is not None:
        chosen_by = VALIDATION
    scores = {spec: _score(run, chosen_by) for spec, run in trials.items()}
    finite = {spec: score for spec, score in scores.items() if score is not None}
    if not finite:
        raise InputError(
            f"method {method.label}: every grid point diverged; "
            f"give smaller values in its grid {method.grid}"
        )

    def rank(spec: str) -> float:
        metric = trials[spec].metric
        return metric.rank(finite[spec])

    # of equal ones the first of the grid
    best = max(finite, key=rank)
    return Choice(
        label=method.label,
        spec=best,
        rounds=study.tuning.rounds * len(scores),
        scores=scores,
    )


def _trial(job: Job, home: Path) -> Run:
    stored = read_run(folder_of(job, home))
    if stored is None:
        raise InputError(f"{folder_of(job, home)}: a grid point that was not run; tune again")
    return Run(job.method, stored.rows, metric_infos(stored.spec))


def _score(run: Run, prefix: str) -> float | None:
    """None of a run that diverged: updates were refused at its end, or there is no number.

    prefix: of the metric's column, which says on whose samples.
    """
    # the same tenth that the score is taken of: one refused update early on is forgiven
    count = max(1, len(run.rows) // 10)
    tail = run.rows[-count:]
    score = run.final(prefix + run.metric.name)
    if math.isnan(score) or any(row["rejected"] for row in tail):
        return None
    return score
