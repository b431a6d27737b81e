"""Baselines get their step sizes from a grid, and the rounds it costs are part of the result."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path

from fedstep.analysis.summary import Run, summarise
from fedstep.core.errors import InputError
from fedstep.run.files import write_json
from fedstep.run.journal import Journal
from fedstep.study.choices import Choice
from fedstep.study.plan import Method, Study
from fedstep.study.pool import run_all
from fedstep.study.work import folder_of


def tune(study: Study, home: Path, data: Path | None, workers: int = 1) -> dict[str, Choice]:
    """Run every grid point that is missing and choose; methods without a grid cost nothing.

    The choice is made on the test accuracy of a seed that the study does not use: this favours the tuned methods.
    """
    if study.tuning.seed in study.seeds:
        raise InputError(
            f"tuning seed {study.tuning.seed} is one of the study's seeds: give another"
        )
    pairs = [(job, m.label) for m in study.methods if m.grid for job in study.trials(m)]
    run_all(
        [job for job, _ in pairs], [f"tuning {label}" for _, label in pairs], home, data, workers
    )
    choices = {m.label: choose(study, m, home) for m in study.methods}
    write_json(home / "tuning.json", [asdict(c) for c in choices.values()])
    return choices


def choose(study: Study, method: Method, home: Path) -> Choice:
    """The best grid point by the mean accuracy of the last tenth of its rounds."""
    if not method.grid:
        return Choice(method.label, method.spec, 0, {})
    scores: dict[str, float | None] = {}
    for job in study.trials(method):
        rows = Journal(folder_of(job, home) / "rounds.jsonl").rows()
        got = summarise(Run(job.method, rows), math.inf)
        broken = any(r["rejected"] for r in rows[-max(1, len(rows) // 10) :]) or math.isnan(
            got.accuracy
        )
        scores[job.method] = None if broken else got.accuracy
    good = {spec: score for spec, score in scores.items() if score is not None}
    if not good:
        raise InputError(
            f"method {method.label}: every grid point diverged; give smaller values in its grid {method.grid}"
        )
    best = max(good, key=lambda spec: good[spec])
    return Choice(method.label, best, study.tuning.rounds * len(scores), scores)
