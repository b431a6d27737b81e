"""The results of a study, read back from its folder or from one compact file."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from fedstep.analysis.summary import Run
from fedstep.core.errors import InputError
from fedstep.run.files import write_bytes
from fedstep.run.journal import Journal
from fedstep.study.choices import Choice, read_choices
from fedstep.study.plan import Job, Study, read_study

PACKED = "results.jsonl.gz"
DIGITS = 6  # significant, in the compact file


@dataclass(frozen=True)
class Stored:
    """What one run left: its spec.json, its rows, and whether it reached its last round."""

    spec: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    done: bool


@dataclass(frozen=True)
class Group:
    """A method's runs in the order of their seeds; a seed that has not begun is left out."""

    label: str
    runs: tuple[Run, ...]
    choice: Choice
    published: Mapping[str, Sequence[float]]
    seeds: tuple[int, ...]
    unfinished: tuple[int, ...]  # seeds whose runs are used up to where they stopped
    specs: tuple[Mapping[str, Any], ...]  # spec.json of every run


@dataclass(frozen=True)
class Results:
    """A study and what is known of it so far."""

    study: Study
    groups: tuple[Group, ...]
    choices: Mapping[str, Choice]

    @property
    def missing(self) -> tuple[str, ...]:
        """Methods of which no run has begun."""
        there = {group.label for group in self.groups}
        return tuple(m.label for m in self.study.methods if m.label not in there)


def load(home: Path) -> Results:
    """Read a results folder; runs that are not in HOME/runs are taken from the compact file beside it."""
    study = _study(home)
    choices = _choices(study, home)
    runs = _stored(home, _jobs(study, choices))
    groups = []
    for method in study.methods:
        mine = [(job.seed, s) for label, job, s in runs if label == method.label]
        if mine:
            groups.append(
                Group(
                    method.label,
                    tuple(Run(f"{method.label}, seed {seed}", s.rows) for seed, s in mine),
                    choices[method.label],
                    method.published,
                    tuple(seed for seed, _ in mine),
                    tuple(seed for seed, s in mine if not s.done),
                    tuple(s.spec for _, s in mine),
                )
            )
    if not groups:
        raise InputError(f"{home}: no results yet; make them with fedstep run STUDY --out {home}")
    return Results(study, tuple(groups), choices)


def pack(home: Path, path: Path) -> Path:
    """Write every finished run of the study into one gzip file, a JSON line each; the same results give the same bytes.

    Floats keep 6 significant digits, every round is kept. study.toml, scale.txt and tuning.json belong beside the file.
    """
    study = _study(home)
    lines = [
        _line(job, s) for _, job, s in _stored(home, _jobs(study, _choices(study, home))) if s.done
    ]
    if not lines:
        raise InputError(
            f"{home}: no finished run to pack; finish them with fedstep run STUDY --out {home}"
        )
    data = io.BytesIO()
    with gzip.GzipFile(
        "", "wb", 9, data, mtime=0
    ) as file:  # neither name, time nor platform in the header
        file.write("".join(dict.fromkeys(lines)).encode())
    write_bytes(path, data.getvalue())
    return path


def unpack(path: Path) -> dict[str, Stored]:
    """The runs of a compact file by digest."""
    try:
        lines = [
            json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()
        ]
        return {
            line["digest"]: Stored(line["spec"], _rows(line["columns"]), True) for line in lines
        }
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: not packed results ({error}); make them anew with fedstep export --pack"
        ) from None


def _study(home: Path) -> Study:
    path, scale = home / "study.toml", home / "scale.txt"
    if not path.exists():
        raise InputError(f"{home}: no results here; make them with fedstep run STUDY --out {home}")
    return read_study(path, scale.read_text().strip() if scale.exists() else "paper", check=False)


def _choices(study: Study, home: Path) -> dict[str, Choice]:
    fixed = {m.label: Choice(m.label, m.spec, 0, {}) for m in study.methods if not m.grid}
    return {**fixed, **(read_choices(home) if (home / "tuning.json").exists() else {})}


def _jobs(study: Study, choices: Mapping[str, Choice]) -> list[tuple[str, Job]]:
    """Every run by label; a method whose tuning is not finished has none."""
    ready = tuple(m for m in study.methods if m.label in choices)
    jobs = replace(study, methods=ready).runs({m.label: choices[m.label].spec for m in ready})
    return [(m.label, job) for (_, m), job in zip(product(study.seeds, ready), jobs, strict=True)]


def _stored(home: Path, jobs: Sequence[tuple[str, Job]]) -> list[tuple[str, Job, Stored]]:
    packed = unpack(home / PACKED) if (home / PACKED).exists() else {}
    found = (
        (label, job, _read(home / "runs" / job.digest) or packed.get(job.digest))
        for label, job in jobs
    )
    return [(label, job, stored) for label, job, stored in found if stored]


def _read(folder: Path) -> Stored | None:
    rows = Journal(folder / "rounds.jsonl").rows()
    about = folder / "spec.json"
    spec = json.loads(about.read_text()) if about.exists() else {}
    return Stored(spec, rows, (folder / "done.json").exists()) if rows else None


def _line(job: Job, stored: Stored) -> str:
    columns = {key: [_short(row[key]) for row in stored.rows] for key in stored.rows[0]}
    line = {"digest": job.digest, "spec": stored.spec, "columns": columns}
    return json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n"


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return [_short(v) for v in value] if isinstance(value, list) else value
