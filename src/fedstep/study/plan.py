"""A study: one task, several methods, several seeds, written down in a TOML file."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from fedstep.core.errors import InputError, unknown

T = TypeVar("T")
WEIGHTINGS = ("equal", "samples")


def _counted(name: str, value: object, optional: bool = False) -> None:
    if not (optional and value is None) and not (type(value) is int and value >= 1):
        raise InputError(f"{name} = {value!r}: give a whole number, 1 or more")


@dataclass(frozen=True)
class Setting:
    """Everything about a run but its method and seed."""

    data: str
    model: str
    partition: str | None = None  # None: the data's natural clients
    rounds: int = 500
    per_round: int = 20
    steps: int | None = 20
    epochs: int | None = None
    batch: int = 50
    every: int = 5  # rounds between evaluations
    limit: int | None = None  # keep the first clients only
    eval_limit: int | None = None  # score on the first test samples only
    weighting: str | None = None  # "equal" or "samples"; None: the method's own
    train_loss: bool = True  # evaluate the loss over all clients
    metrics: tuple[str, ...] = ()  # the first is tuned, compared and drawn; (): the usual ones

    def __post_init__(self) -> None:
        for name in ("data", "model"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"{name} = {getattr(self, name)!r}: give a text in quotes")
        if not all(isinstance(metric, str) for metric in self.metrics):
            raise InputError(f"metrics = {list(self.metrics)}: give a list of texts in quotes")
        for name in (
            "rounds",
            "per_round",
            "batch",
            "every",
            "steps",
            "epochs",
            "limit",
            "eval_limit",
        ):
            _counted(
                name,
                getattr(self, name),
                optional=name in ("steps", "epochs", "limit", "eval_limit"),
            )


@dataclass(frozen=True)
class Job:
    """One method with one seed: its hash names its folder."""

    setting: Setting
    method: str
    seed: int

    @property
    def digest(self) -> str:
        values = asdict(self)
        # runs of before there were metrics keep their folders: what is usual is not spelt out
        if not self.setting.metrics:
            del values["setting"]["metrics"]
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Method:
    """A line of the comparison; a grid names the values that tuning may fill into the spec's braces."""

    label: str
    spec: str
    grid: dict[str, list[float]] = field(default_factory=dict)
    published: dict[str, list[float]] = field(default_factory=dict)
    varied: dict[str, float] = field(default_factory=dict)  # such as c = 0.1, for a chart over c
    family: str = ""  # the line of that chart which the method belongs to

    def candidates(self) -> list[str]:
        """The spec for every point of the grid."""
        points = product(*self.grid.values())
        return [self.spec.format(**dict(zip(self.grid, point, strict=True))) for point in points]


@dataclass(frozen=True)
class Tuning:
    """What every grid point is given: the same rounds and the same seed, which is none of the study's."""

    rounds: int = 100
    seed: int = 1000

    def __post_init__(self) -> None:
        _counted("tuning rounds", self.rounds)


@dataclass(frozen=True)
class Study:
    """A task, its methods and seeds."""

    name: str
    title: str
    setting: Setting
    seeds: tuple[int, ...]
    methods: tuple[Method, ...]
    tuning: Tuning = Tuning()
    text: str = ""
    scale: str = "paper"

    def runs(self, specs: Mapping[str, str]) -> list[Job]:
        """Every run, given each method's spec after tuning; seed by seed, so that early results compare."""
        return [
            Job(self.setting, specs[m.label], seed) for seed in self.seeds for m in self.methods
        ]

    def trials(self, method: Method) -> list[Job]:
        """The runs that tune a method."""
        setting = replace(self.setting, rounds=self.tuning.rounds, train_loss=False)
        return [Job(setting, spec, self.tuning.seed) for spec in method.candidates()]


def read_study(path: Path, scale: str = "paper", check: bool = True) -> Study:
    """Parse a study; `scale` names a table of the file that overrides settings, such as `small`.

    `check` builds every method; results that exist can be read without.
    """
    try:
        table = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such study (fedstep paper lists those of the paper)"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None
    try:
        return _study(path, table, scale, check)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


SETTINGS = tuple(f.name for f in fields(Setting))
TABLES = ("title", "text", "seeds", "methods", "tuning", "scales")


def _study(path: Path, table: dict[str, Any], scale: str, check: bool) -> Study:
    _only(table, [*TABLES, *SETTINGS])
    over = _scale(table.get("scales", {}), scale)
    tuning = {**table.get("tuning", {}), **over.pop("tuning", {})}
    _only(over, ["seeds", *SETTINGS])
    merged = {**table, **over}
    return Study(
        name=path.stem,
        title=table.get("title", path.stem),
        setting=_setting(merged, check),
        seeds=_seeds(merged.get("seeds", [0])),
        methods=_methods(table.get("methods", []), check),
        tuning=_made(Tuning, tuning),
        text=table.get("text", ""),
        scale=scale,
    )


def _scale(scales: Mapping[str, Any], scale: str) -> dict[str, Any]:
    """What a scale overrides; `paper` is the file as it stands and need not be there."""
    if scale != "paper" and scale not in scales:
        raise InputError(unknown("scale", scale, ["paper", *scales]))
    return dict(scales.get(scale, {}))


def _setting(merged: dict[str, Any], check: bool) -> Setting:
    values = {name: value for name, value in merged.items() if name in SETTINGS}
    # epochs are in place of the steps that a setting has by default
    if values.get("epochs") is not None and "steps" not in values:
        values["steps"] = None
    if "metrics" in values:
        values["metrics"] = _metrics(values["metrics"], check)
    setting = _made(Setting, values)
    if setting.weighting not in (None, *WEIGHTINGS):
        raise InputError(unknown("weighting", setting.weighting, list(WEIGHTINGS)))
    return setting


def _methods(tables: list[dict[str, Any]], check: bool) -> tuple[Method, ...]:
    methods = tuple(_made(Method, table) for table in tables)
    labels = {method.label for method in methods}
    if not methods or len(labels) < len(methods):
        raise InputError("give [[methods]] with different labels")
    if check:
        for method in methods:
            _check(method)
    return methods


def _seeds(given: Any) -> tuple[int, ...]:
    seeds = (given,)
    if isinstance(given, list):
        seeds = tuple(given)
    whole = all(type(seed) is int for seed in seeds)
    if not seeds or not whole or len(set(seeds)) < len(seeds):
        raise InputError(f"seeds = {list(seeds)}: give different whole numbers")
    return seeds


def _metrics(given: Any, check: bool) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise InputError(f"metrics = {given!r}: give a list, such as ['accuracy']")
    if check:
        from fedstep.run.metrics import metrics_of  # here, so that results are read without torch

        metrics_of(given)
    return tuple(given)


def _check(method: Method) -> None:
    from fedstep.spec import build

    try:
        candidates = method.candidates()
    except (KeyError, IndexError, ValueError):
        raise InputError(
            f"method {method.label}: {method.spec} does not fit its grid {method.grid}"
        ) from None
    for spec in candidates:
        build(spec)


def _only(table: Mapping[str, Any], known: list[str]) -> None:
    for name in table:
        if name not in known:
            raise InputError(unknown("setting", name, known))


def _made(kind: type[T], table: Mapping[str, Any]) -> T:
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    _only(table, names)
    try:
        return kind(**table)
    except TypeError as error:
        raise InputError(str(error).replace("__init__() ", "")) from None
