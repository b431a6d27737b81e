"""The results of a study, read back from its folder or from one compact file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from fedstep.analysis.group import Group
from fedstep.core.errors import InputError
from fedstep.run.columns import metric_infos
from fedstep.run.folder import SPEC, StoredRun, read_run
from fedstep.run.history import Run
from fedstep.run.listed import read_listed
from fedstep.run.packed import pack_runs
from fedstep.study.choices import Choice, read_choices
from fedstep.study.kept import KeptRuns
from fedstep.study.plan import FULL_SCALE, Job, Method, Setting, Study
from fedstep.study.study_file import parse_study
from fedstep.study.typed import typed


@dataclass(frozen=True)
class Results:
    """A study and what is known of it so far."""

    study: Study
    groups: tuple[Group, ...]  # methods of which a run has begun
    choices: Mapping[str, Choice]  # by label

    @property
    def missing(self) -> tuple[str, ...]:
        """Methods of which no run has begun."""
        there = {group.label for group in self.groups}
        labels = [method.label for method in self.study.methods]
        return tuple(label for label in labels if label not in there)


@dataclass(frozen=True)
class LabelledRun:
    """A run of a study, and the method it belongs to."""

    label: str
    job: Job
    stored: StoredRun


def load_results(home: Path) -> Results:
    """Read a results folder.

    Runs that are not in HOME/runs are taken from the compact file beside it.
    """
    if is_single_run(home):
        return load_single_run(home)
    study = _study(home)
    choices = _choices(study, home)
    jobs = _jobs(study, choices)
    runs = _stored_runs(home, jobs)
    groups = []
    for method in study.methods:
        of_method = [run for run in runs if run.label == method.label]
        # without a run there may be no choice either: tuning comes first
        if of_method:
            choice = choices[method.label]
            groups.append(_group(method, choice, of_method))
    if not groups:
        raise InputError(f"{home}: no results yet; make them with fedstep run STUDY --out {home}")
    return Results(study, tuple(groups), choices)


def labelled_runs(home: Path) -> list[LabelledRun]:
    """The runs of a study that have begun, seed by seed; those that tune are left out."""
    if is_single_run(home):
        raise InputError(f"{home}: one run, not a study; give the results of fedstep run STUDY")
    study = _study(home)
    jobs = _jobs(study, _choices(study, home))
    return _stored_runs(home, jobs)


def pack(home: Path, path: Path) -> Path:
    """Write every finished run of the study into one compact file, those that tune among them.

    study.toml, scale.txt and tuning.json belong beside the file: with them `fedstep run` goes on.
    """
    if is_single_run(home):
        raise InputError(f"{home}: one run, not a study; export it with --csv or --parquet")
    study = _study(home)
    choices = _choices(study, home)
    runs = _stored_runs(home, [*_jobs(study, choices), *_trials(study)])
    finished = {}
    for run in runs:
        # a run that goes on would be frozen in the file where it stands
        if run.stored.done:
            finished[run.job.digest] = run.stored
    if not finished:
        raise InputError(
            f"{home}: no finished run to pack; finish them with fedstep run STUDY --out {home}"
        )
    return pack_runs(finished, path)


def _group(
    method: Method,
    choice: Choice,
    runs: Sequence[LabelledRun],
) -> Group:
    rows = []
    for run in runs:
        name = f"{method.label}, seed {run.job.seed}"
        metrics = metric_infos(run.stored.spec)
        rows.append(Run(name, run.stored.rows, metrics))
    return Group(
        label=method.label,
        runs=tuple(rows),
        choice=choice,
        published=method.published,
        seeds=tuple(run.job.seed for run in runs),
        unfinished=tuple(run.job.seed for run in runs if not run.stored.done),
        specs=tuple(run.stored.spec for run in runs),
        varied=method.varied,
        family=method.family,
    )


def _study(home: Path) -> Study:
    path = home / "study.toml"
    if not path.exists():
        raise InputError(f"{home}: no results here; make them with fedstep run STUDY --out {home}")
    scale = FULL_SCALE
    scale_file = home / "scale.txt"
    if scale_file.exists():
        scale = read_listed(scale_file).decode(errors="replace").strip()
    # methods are not built: results stay readable when a method has changed its arguments since
    return parse_study(path, read_listed(path), scale, check=False)


def _choices(study: Study, home: Path) -> dict[str, Choice]:
    choices = {}
    for method in study.methods:
        if not method.grid:
            choices[method.label] = Choice(
                method.label,
                method.spec,
                rounds=0,
                scores={},
            )
    if (home / "tuning.json").exists():
        choices.update(read_choices(home))
    return choices


def _jobs(study: Study, choices: Mapping[str, Choice]) -> list[tuple[str, Job]]:
    """Every run by label; a method whose tuning is not finished has none."""
    # a run is named by its spec, which tuning has not chosen yet
    ready = tuple(m for m in study.methods if m.label in choices)
    specs = {m.label: choices[m.label].spec for m in ready}
    jobs = replace(study, methods=ready).runs(specs)
    # in the order of `Study.runs`: all methods of the first seed, then of the next
    order = product(study.seeds, ready)
    labelled = []
    for (_, method), job in zip(order, jobs, strict=True):
        labelled.append((method.label, job))
    return labelled


def _trials(study: Study) -> list[tuple[str, Job]]:
    """Every grid point by label, also of methods whose tuning is not finished."""
    labelled = []
    for method in study.methods:
        if method.grid:
            labelled += [(method.label, job) for job in study.trials(method)]
    return labelled


def _stored_runs(home: Path, jobs: Sequence[tuple[str, Job]]) -> list[LabelledRun]:
    kept = KeptRuns.of(home)
    runs = []
    for label, job in jobs:
        stored = kept.read(job)
        # results of before there was a guard: their files do not say that they have none
        if stored is None and job.setting.guard:
            job = replace(job, setting=replace(job.setting, guard=False))
            stored = kept.read(job)
        if stored is not None:
            runs.append(LabelledRun(label, job, stored))
    return runs


def is_single_run(home: Path) -> bool:
    """Whether the folder is that of one run, as `fit(out=...)` writes it."""
    has_spec = (home / SPEC).exists()
    has_study = (home / "study.toml").exists()
    return has_spec and not has_study


def load_single_run(home: Path) -> Results:
    """A run of `fit`, or one run of a study, as a study of one method and one seed."""
    stored = read_run(home)
    if stored is None:
        raise InputError(f"{home}: no results yet; the run has not finished its first round")
    spec = stored.spec
    try:
        label = spec["method"]
        seed = spec["seed"]
        algorithm = spec["algorithm"]
        setting = _setting_of(spec)
    except (KeyError, TypeError) as error:
        raise InputError(f"{home / SPEC}: not that of a run ({error} is missing)") from None
    except InputError as error:
        raise InputError(f"{home / SPEC}: not that of a run ({error})") from None
    choice = Choice(
        label,
        algorithm,
        rounds=0,
        scores={},
    )
    unfinished = []
    if not stored.done:
        unfinished.append(seed)
    group = Group(
        label=label,
        runs=(
            Run(
                f"{label}, seed {seed}",
                stored.rows,
                metric_infos(spec),
            ),
        ),
        choice=choice,
        published={},
        seeds=(seed,),
        unfinished=tuple(unfinished),
        specs=(spec,),
    )
    study = Study(
        name=home.name,
        title=f"{label}: a run of fedstep",
        setting=setting,
        seeds=(seed,),
        methods=(Method(label, algorithm),),
    )
    return Results(study, (group,), {label: choice})


def _setting_of(spec: Mapping[str, Any]) -> Setting:
    if "setting" in spec:  # one run out of the folder of a study
        return typed(Setting, spec["setting"])
    return Setting(
        data="given to fit",
        model=f"{spec['parameters']:,} parameters",
        rounds=spec["rounds"],
        per_round=spec["per_round"],
        steps=spec["steps"] or None,  # a plan may have no steps at all, a study may not
        epochs=spec["epochs"] or None,
        batch=spec["batch"],
        every=spec["every"],
        train_loss=False,
    )
