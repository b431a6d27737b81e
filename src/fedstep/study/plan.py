"""A study: one task, several methods, several seeds, written down in a TOML file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from math import prod
from typing import Annotated, Literal

from msgspec import Meta

from fedstep.core.errors import InputError, brief, unknown

# What a file may hold. The descriptions are what a message tells to give.
Text = Annotated[str, Meta(max_length=100_000, description="a text in quotes")]
Label = Annotated[
    str, Meta(min_length=1, max_length=200, description="a text of 1 to 200 characters")
]
Spec = Annotated[str, Meta(max_length=4_000, description="a text such as 'fedsls(c=0.1)'")]
# the bounds are far above any use, and far below what would fill a memory
Count = Annotated[int, Meta(ge=1, le=10**9, description="a whole number, 1 or more")]
Seed = Annotated[
    int, Meta(ge=-(2**63), le=2**63 - 1, description="a whole number of at most 63 bits")
]
# whole numbers stay what they are: a spec is filled with them as text, and names a run's folder
Number = int | float
Numbers = Annotated[
    dict[str, Annotated[list[Number], Meta(max_length=10_000)]],
    Meta(description="a table of lists of numbers, such as { step = [0.1, 1.0] }"),
]
Varied = Annotated[dict[str, Number], Meta(description="a table of numbers, such as { c = 0.1 }")]
Metrics = Annotated[
    tuple[str, ...],
    Meta(max_length=100, description="a list of texts in quotes, such as ['accuracy']"),
]
Weighed = Annotated[Literal["equal", "samples"], Meta(description="'equal' or 'samples'")]
YesNo = Annotated[bool, Meta(description="true or false")]

FIELD = re.compile(r"{([A-Za-z_]\w*)}")  # what a grid fills in: {step}
FULL_SCALE = "default"  # the scale of a study: its file as it is
LARGEST_GRID = 10_000  # points: each is a run


@dataclass(frozen=True)
class Setting:
    """Everything about a run but its method and seed."""

    data: Text
    model: Text  # such as logistic(inputs=784, classes=62)
    partition: Text | None = None  # None: the data's natural clients
    rounds: Count = 500
    per_round: Count = 20  # clients
    steps: Count | None = 20  # of a client and round; or epochs
    epochs: Count | None = None
    batch: Count = 50  # samples of a local step
    every: Count = 5  # rounds between evaluations
    limit: Count | None = None  # keep the first clients only
    eval_limit: Count | None = None  # score on the first test samples only
    weighting: Weighed | None = None  # None: the method's own
    train_loss: YesNo = True  # evaluate the loss over all clients
    guard: YesNo = True  # shorten deltas out of all proportion; false: what the method says
    metrics: Metrics = ()  # the first is tuned, compared and drawn; (): the usual ones
    # clients that do not train and are scored in place of the test samples: for tuning
    set_aside: Count | None = None


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
        # and so do runs of before there was a guard
        if not self.setting.guard:
            del values["setting"]["guard"]
        # and runs that set no clients aside
        if self.setting.set_aside is None:
            del values["setting"]["set_aside"]
        # sorted: the folders of old runs must not depend on the order of the fields
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Method:
    """A line of the comparison.

    A grid names the values that tuning may fill into the spec's braces.
    """

    label: Label
    spec: Spec  # such as fedavg(step={step})
    grid: Numbers = field(default_factory=dict)
    published: Numbers = field(default_factory=dict)
    varied: Varied = field(default_factory=dict)  # such as c = 0.1, for a chart over c
    family: Text = ""  # the line of that chart which the method belongs to

    def __post_init__(self) -> None:
        points = prod(len(values) for values in self.grid.values())
        if not 1 <= points <= LARGEST_GRID:
            raise InputError(
                f"method {self.label}: its grid has {points:,} points; "
                f"give 1 to {LARGEST_GRID:,}, each is a run"
            )
        named = set(FIELD.findall(self.spec))
        # braces with more than a name in them would be a format: it can ask for gigabytes of text
        rest = FIELD.sub("", self.spec)
        if named != set(self.grid) or "{" in rest or "}" in rest:
            grid = brief(dict(self.grid))
            raise InputError(f"method {self.label}: {self.spec} does not fit its grid {grid}")

    def candidates(self) -> list[str]:
        """The spec for every point of the grid."""
        candidates = []
        for point in product(*self.grid.values()):
            values = dict(zip(self.grid, point, strict=True))
            candidates.append(self._filled(values))
        return candidates

    def _filled(self, values: Mapping[str, Number]) -> str:
        """The spec at one point: a name in braces stands for its value as Python writes it."""
        return FIELD.sub(lambda name: str(values[name[1]]), self.spec)


@dataclass(frozen=True)
class Tuning:
    """What every grid point is given: the same rounds and the same seed.

    The seed is none of the study's: what was tuned on is not what is compared.
    """

    rounds: Count = 100
    seed: Seed = 1000  # far from those that people give
    # set aside while the others train, to choose by; None: chosen by test samples
    clients: Count | None = None


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
    scale: str = FULL_SCALE  # which table of overrides was read

    def only(self, labels: Sequence[str]) -> Study:
        """The same study of these methods alone, in the order of the file; none given: all."""
        if not labels:
            return self
        known = [method.label for method in self.methods]
        for label in labels:
            if label not in known:
                raise InputError(unknown("method", label, known))
        chosen = tuple(method for method in self.methods if method.label in labels)
        return replace(self, methods=chosen)

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
        setting = replace(
            self.setting,
            rounds=self.tuning.rounds,
            train_loss=False,
            set_aside=self.tuning.clients,
        )
        return [Job(setting, spec, self.tuning.seed) for spec in method.candidates()]
