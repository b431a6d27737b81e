"""Baselines get their step sizes from a grid, and the rounds it costs are part of the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fedstep.core.errors import InputError
from fedstep.run.columns import VALIDATION, metric_infos
from fedstep.run.files import json_bytes
from fedstep.run.history import Run
from fedstep.run.listed import write_listed
from fedstep.study.choices import Choice, read_choices
from fedstep.study.kept import KeptRuns, folder_of
from fedstep.study.plan import Job, Method, Study
from fedstep.study.pool import run_all


def tune(
    study: Study,
    home: Path,
    data: Path | None,
    workers: int = 1,
    ray: str | None = None,
    only: Sequence[str] = (),
) -> dict[str, Choice]:
    """Run every grid point that is missing and choose; methods without a grid cost nothing.

    only: the labels of the methods to tune; what was chosen for the others before is kept.

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
    methods = study.only(only).methods
    for method in methods:
        if method.grid:
            trials = study.trials(method)
            jobs += trials
            labels += [f"tuning {method.label}"] * len(trials)
    run_all(jobs, labels, home, data, workers, ray=ray)
    kept = KeptRuns.of(home)
    choices = {method.label: best_choice(study, method, kept) for method in methods}
    written = {**_earlier(study, home, only), **choices}
    rows = [asdict(written[m.label]) for m in study.methods if m.label in written]
    write_listed(home / "tuning.json", json_bytes(rows))
    return choices


def _earlier(study: Study, home: Path, only: Sequence[str]) -> dict[str, Choice]:
    """What was chosen before for methods that are left alone now."""
    if not only or not (home / "tuning.json").exists():
        return {}
    before = read_choices(home)
    choices = {}
    for method in study.methods:
        choice = before.get(method.label)
        # of a method that was changed since nothing is chosen
        if method.label not in only and choice is not None and _chosen_from(choice, method):
            choices[method.label] = choice
    return choices


def _chosen_from(choice: Choice, method: Method) -> bool:
    """Whether a choice was made from the grid that the method has."""
    if not method.grid:
        return choice.spec == method.spec
    return set(choice.scores) == set(method.candidates())


def best_choice(
    study: Study,
    method: Method,
    kept: KeptRuns,
) -> Choice:
    """The best grid point by the mean of the first metric over the last tenth of its rounds."""
    if not method.grid:
        return Choice(method.label, method.spec, 0, {})
    trials = {job.method: _trial(job, kept) for job in study.trials(method)}
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


def _trial(job: Job, kept: KeptRuns) -> Run:
    stored = kept.read(job)
    if stored is None:
        folder = folder_of(job, kept.home)
        raise InputError(f"{folder}: a grid point that was not run; tune again")
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
