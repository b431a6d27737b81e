"""The methods of a study under the theorems' eyes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import torch

from fedstep.analysis.theory.measure import Rounds, measure
from fedstep.analysis.theory.tell import Finding
from fedstep.core.errors import InputError, unknown
from fedstep.spec import build
from fedstep.steps.search import LineSearch
from fedstep.study.choices import read_choices
from fedstep.study.plan import Job, Method, Study
from fedstep.study.work import simulation


def chosen(study: Study, wanted: Sequence[str], home: Path) -> list[tuple[str, str]]:
    """Labels and specs: those asked for, by label or as a call; else every line search, else the first method."""
    if wanted:
        return [_named(study, name, home) for name in wanted]
    searching = [
        m for m in study.methods if not m.grid and isinstance(build(m.spec).local.step, LineSearch)
    ]
    return [_ready(m, home) for m in searching or study.methods[:1]]


def _named(study: Study, name: str, home: Path) -> tuple[str, str]:
    labels = {m.label: m for m in study.methods}
    if name in labels:
        return _ready(labels[name], home)
    try:
        build(name)
    except InputError as error:
        if "(" in name:
            raise
        raise InputError(
            f"--method {name}: {unknown('label', name, list(labels))}, or give a call"
        ) from error
    return name, name


def _ready(method: Method, home: Path) -> tuple[str, str]:
    if not method.grid:
        return method.label, method.spec
    if not (home / "tuning.json").exists():
        raise InputError(
            f"method {method.label} has a grid and is not tuned yet: fedstep tune first, or give --method a call"
        )
    return method.label, read_choices(home)[method.label].spec


def study_theory(
    study: Study,
    methods: Iterable[tuple[str, str]],
    seed: int,
    rounds: int | None,
    points: int,
    clients: int,
    data: Path | None,
    show: Callable[[str, int, Rounds], Rounds],
) -> list[Finding]:
    """Run each method and measure."""
    torch.set_num_threads(1)
    found = []
    for label, spec in methods:
        sim, _ = simulation(Job(study.setting, spec, seed), data)
        total = min(study.setting.rounds, 30) if rounds is None else rounds
        got = measure(sim, total, points, clients, partial(show, label, total))
        found.append(Finding(label, spec, seed, sim.task.algorithm, got))
    return found
