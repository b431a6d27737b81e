"""A study: one task, several methods, several seeds, written down in a TOML file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product

from fedstep.core.errors import InputError, unknown

WEIGHTINGS = ("equal", "samples")
COUNTS = ("rounds", "per_round", "batch", "every")  # fields of a setting that are 1 or more
OPTIONAL_COUNTS = ("steps", "epochs", "limit", "eval_limit")


@dataclass(frozen=True)
class Setting:
    """Everything about a run but its method and seed."""

    data: str
    model: str  # as text, such as logistic(inputs=784, classes=62)
    partition: str | None = None  # None: the data's natural clients
    rounds: int = 500
    per_round: int = 20  # clients
    steps: int | None = 20  # of a client and round; or epochs
    epochs: int | None = None
    batch: int = 50  # samples of a local step
    every: int = 5  # rounds between evaluations
    limit: int | None = None  # keep the first clients only
    eval_limit: int | None = None  # score on the first test samples only
    weighting: str | None = None  # "equal" or "samples"; None: the method's own
    train_loss: bool = True  # evaluate the loss over all clients
    metrics: tuple[str, ...] = ()  # the first is tuned, compared and drawn; (): the usual ones

    def __post_init__(self) -> None:
        _check_text("data", self.data)
        _check_text("model", self.model)
        if not all(isinstance(metric, str) for metric in self.metrics):
            raise InputError(f"metrics = {list(self.metrics)}: give a list of texts in quotes")
        for name in COUNTS:
            _check_count(name, getattr(self, name))
        for name in OPTIONAL_COUNTS:
            value = getattr(self, name)
            if value is not None:
                _check_count(name, value)
        if self.weighting is not None and self.weighting not in WEIGHTINGS:
            raise InputError(unknown("weighting", self.weighting, list(WEIGHTINGS)))


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InputError(f"{name} = {value!r}: give a text in quotes")


def _check_count(name: str, value: object) -> None:
    # not isinstance: True is an int to Python, and no number of rounds
    if type(value) is not int or value < 1:
        raise InputError(f"{name} = {value!r}: give a whole number, 1 or more")


@dataclass(frozen=True)
class Job:
    """One method with one seed: its hash names its folder."""

    setting: Setting
    method: str  # its spec, without braces
    seed: int

    @property
    def digest(self) -> str:
        values = asdict(self)
        # runs of before there were metrics keep their folders: what is usual is not spelt out
        if not self.setting.metrics:
            del values["setting"]["metrics"]
        # sorted: the folders of old runs must not depend on the order of the fields
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Method:
    """A line of the comparison.

    A grid names the values that tuning may fill into the spec's braces.
    """

    label: str
    spec: str  # such as fedavg(step={step})
    grid: dict[str, list[float]] = field(default_factory=dict)
    published: dict[str, list[float]] = field(default_factory=dict)
    varied: dict[str, float] = field(default_factory=dict)  # such as c = 0.1, for a chart over c
    family: str = ""  # the line of that chart which the method belongs to

    def candidates(self) -> list[str]:
        """The spec for every point of the grid."""
        candidates = []
        for point in product(*self.grid.values()):
            values = dict(zip(self.grid, point, strict=True))
            candidates.append(self.spec.format(**values))
        return candidates


@dataclass(frozen=True)
class Tuning:
    """What every grid point is given: the same rounds and the same seed.

    The seed is none of the study's: what was tuned on is not what is compared.
    """

    rounds: int = 100
    seed: int = 1000  # far from those that people give

    def __post_init__(self) -> None:
        _check_count("tuning rounds", self.rounds)


@dataclass(frozen=True)
class Study:
    """A task, its methods and seeds."""

    name: str  # of its file, and of its results
    title: str
    setting: Setting
    seeds: tuple[int, ...]
    methods: tuple[Method, ...]  # in the order of tables and charts
    tuning: Tuning = Tuning()
    text: str = ""  # a paragraph for the report
    scale: str = "paper"  # which table of overrides was read

    def runs(self, specs: Mapping[str, str]) -> list[Job]:
        """Every run, given each method's spec after tuning."""
        jobs = []
        # seed by seed, so that early results can be compared
        for seed in self.seeds:
            for method in self.methods:
                jobs.append(Job(self.setting, specs[method.label], seed))
        return jobs

    def trials(self, method: Method) -> list[Job]:
        """The runs that tune a method."""
        # the loss over all clients is not what is tuned by, and costs more than the test set
        setting = replace(self.setting, rounds=self.tuning.rounds, train_loss=False)
        return [Job(setting, spec, self.tuning.seed) for spec in method.candidates()]
