"""The methods of a study under the theorems' eyes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from fedstep.analysis.theory.findings import Finding
from fedstep.analysis.theory.measure import Rounds, measure
from fedstep.core.errors import InputError, unknown
from fedstep.spec import build
from fedstep.steps.search import LineSearch
from fedstep.study.choices import read_choices
from fedstep.study.plan import Job, Method, Study
from fedstep.study.work import simulation

USUAL_ROUNDS = 30  # at most, where their number is not given: looking is slow


@dataclass(frozen=True)
class ChosenMethod:
    """A method to look at, without a grid."""

    label: str
    spec: str  # after tuning


def chosen_methods(
    study: Study,
    wanted: Sequence[str],
    home: Path,
) -> list[ChosenMethod]:
    """Those asked for, by label or as a call; else every line search, else the first method."""
    if wanted:
        return [_named(study, name, home) for name in wanted]
    # without a grid: those need no tuning before they can be run
    searching = [method for method in study.methods if not method.grid and _searches(method)]
    return [_tuned(method, home) for method in searching or study.methods[:1]]


def study_theory(
    study: Study,
    methods: Iterable[ChosenMethod],
    seed: int,
    rounds: int | None,
    points: int,
    clients: int,
    data: Path | None,
    show: Callable[[str, int, Rounds], Rounds],
) -> list[Finding]:
    """Run each method and measure."""
    # as the study's own runs do: sums in several threads differ in their last bits
    torch.set_num_threads(1)
    if rounds is None:
        rounds = min(study.setting.rounds, USUAL_ROUNDS)
    findings = []
    for method in methods:
        job = Job(study.setting, method.spec, seed)
        sim, _ = simulation(job, data)
        measured = measure(
            sim,
            rounds,
            points,
            clients,
            partial(show, method.label, rounds),
        )
        findings.append(
            Finding(
                label=method.label,
                spec=method.spec,
                seed=seed,
                algorithm=sim.task.algorithm,
                measured=measured,
            )
        )
    return findings


def _searches(method: Method) -> bool:
    algorithm = build(method.spec)
    return isinstance(algorithm.local.step, LineSearch)


def _named(
    study: Study,
    name: str,
    home: Path,
) -> ChosenMethod:
    labels = {method.label: method for method in study.methods}
    if name in labels:
        return _tuned(labels[name], home)
    try:
        build(name)
    except InputError as error:
        # a call was meant: its own message says what is wrong with it
        if "(" in name:
            raise
        raise InputError(
            f"--method {name}: {unknown('label', name, list(labels))}, or give a call"
        ) from error
    return ChosenMethod(name, name)


def _tuned(method: Method, home: Path) -> ChosenMethod:
    if not method.grid:
        return ChosenMethod(method.label, method.spec)
    if not (home / "tuning.json").exists():
        raise InputError(
            f"method {method.label} has a grid and is not tuned yet: "
            "fedstep tune first, or give --method a call"
        )
    choice = read_choices(home)[method.label]
    return ChosenMethod(method.label, choice.spec)
