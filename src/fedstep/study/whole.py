"""A whole study: its files, its tuning, its runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedstep.run.listed import write_listed
from fedstep.study.plan import Job, Study
from fedstep.study.pool import run_all
from fedstep.study.tune import tune
from fedstep.study.work import prepare


def open_home(study: Study, home: Path, file: bytes) -> None:
    """Give a study its results folder, which keeps a copy of the file it was read from."""
    prepare(study)  # a mistake is found before anything is written
    # results are read by the file they were made with, even when the original has been changed
    write_listed(home / "study.toml", file)
    write_listed(home / "scale.txt", f"{study.scale}\n".encode())


def run_whole(
    study: Study,
    home: Path,
    data: Path | None,
    workers: int = 1,
    profile: bool = False,
    ray: str | None = None,
    only: Sequence[str] = (),
) -> list[Job]:
    """Tune what has a grid, then do every run that is missing; returns the runs.

    They come seed by seed, the methods in their order. only: labels of methods; none: all.
    """
    choices = tune(study, home, data, workers, ray, only)
    study = study.only(only)
    specs = {label: choice.spec for label, choice in choices.items()}
    jobs = study.runs(specs)
    labels = [method.label for method in study.methods] * len(study.seeds)
    run_all(jobs, labels, home, data, workers, profile, ray)
    return jobs
