"""The tables of docs/paper-results.md: the paper's numbers, and those of the committed results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from evidence_curves import FIRST_STEP, in_percent, spread_text
from fedstep.analysis.group import Group
from fedstep.analysis.results import load_results
from fedstep.analysis.statistics import Spread
from fedstep.analysis.summary import MethodSummary, spread_of
from fedstep.study.plan import FULL_SCALE, Study
from fedstep.study.study_file import read_study
from pages import RESULTS, ROOT, Block
from studies import compared

PAGE = "docs/paper-results.md"
STUDIES = ROOT / "src" / "fedstep" / "paper" / "studies"
QUARTER = "quarter"  # the scale at which two cores run a ResNet-18


@dataclass(frozen=True)
class Shown:
    """A method as tables and figures call it, its label in the studies, and what of it is scored."""

    title: str
    label: str
    column: str = "accuracy"


ROWS = (  # of the paper's tables
    Shown("FedAvg", "FedAvg"),
    Shown("FedExP", "FedExP"),
    Shown("FedExProx", "FedExProx, as run"),
    Shown("FedSLS", "FedSLS"),
    Shown("FedExpSLS", "FedExpSLS"),
)
# Algorithm 5 returns the last model, the paper's program scores the mean of the last two
SEARCHES = (*ROWS[-2:], Shown("FedExpSLS, last model", "FedExpSLS", "last_accuracy"))


@dataclass(frozen=True)
class Task:
    """A column of the paper's tables."""

    name: str
    printed: str  # the study whose file has the paper's numbers
    theirs: str  # what the paper trains
    ours: Mapping[str, str]  # by folder of results: what is trained there


TASKS = (
    Task(
        "CIFAR-10",
        "cifar10-resnet18",
        "ResNet-18 with GroupNorm",
        {
            "cifar10-lenet": "LeNet, 40 % of the images",
            "cifar10-resnet18": "ResNet-18 with GroupNorm at a quarter of its width",
        },
    ),
    Task(
        "CIFAR-100",
        "cifar100-resnet18",
        "ResNet-18 with GroupNorm",
        {
            "cifar100-lenet": "LeNet, 40 % of the images",
            "cifar100-resnet18": "ResNet-18 with GroupNorm at a quarter of its width",
        },
    ),
    Task(
        "FEMNIST",
        "femnist-logreg",
        "softmax regression",
        {"femnist-pace": "softmax regression, 300 writers"},
    ),
    Task(
        "Shakespeare",
        "shakespeare-lstm",
        "LSTM, embedding 32",
        {"shakespeare-small": "LSTM, embedding 8"},
    ),
)
# every committed task of FedSLS; the paper has no CNN on FEMNIST
FIRST_STEPS = {
    "FEMNIST": "femnist-pace",
    "FEMNIST, CNN": "femnist-cnn",
    "CIFAR-10": "cifar10-lenet",
    "CIFAR-100": "cifar100-lenet",
    "Shakespeare": "shakespeare-small",
}
PRINTED = {
    "accuracy": "the paper: ",
    "later_accuracy": "the authors' later runs, 1,000 rounds: ",
}
C_VALUES = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
VARIED_C = {"FEMNIST": "sensitivity-c", "CIFAR-10": "sensitivity-c-cifar10"}


def blocks() -> Iterator[Block]:
    """Tables 1 and 2, Armijo's c, and the first step."""
    yield Block(PAGE, "table 1", loss_table)
    yield Block(PAGE, "table 2", accuracy_table)
    yield Block(PAGE, "c", c_table)
    yield Block(PAGE, "first step", first_step_table)


@cache
def finished(folder: str) -> dict[str, Group]:
    """The finished runs of a study by label; none where there are no results."""
    home = RESULTS / folder
    if not (home / "study.toml").exists():
        return {}
    groups = {}
    for group in load_results(home).groups:
        places = [k for k, seed in enumerate(group.seeds) if seed not in group.unfinished]
        if places:
            groups[group.label] = group.of_places(places)
    return groups


@cache
def study(folder: str) -> Study:
    """A study of the package, or at the scale at which it was run."""
    if finished(folder):
        return load_results(RESULTS / folder).study
    scale = QUARTER if "resnet18" in folder else FULL_SCALE
    return read_study(STUDIES / f"{folder}.toml", scale, check=False)


def accuracy_table() -> str:
    """Table 2."""
    methods = (*ROWS, SEARCHES[-1])
    lines = _head(methods)
    for task in TASKS:
        for key, words in PRINTED.items():
            cells = [_published(task, shown, key) for shown in ROWS]
            if set(cells) != {"-"}:
                lines.append(_line(task.name, words + task.theirs, [*cells, "-"]))
        for folder, words in task.ours.items():
            cells = [_cell(folder, shown) for shown in methods]
            lines.append(_line(task.name, _setting(folder, words), cells))
    return "\n".join(lines) + "\n"


def loss_table() -> str:
    """Table 1."""
    lines = _head(ROWS)
    for task in TASKS:
        cells = [_published(task, shown, "train_loss") for shown in ROWS]
        lines.append(_line(task.name, f"the paper: {task.theirs}", cells))
        for folder, words in task.ours.items():
            columns = {"loss": "participants"}
            if study(folder).setting.train_loss:
                columns["train_loss"] = "all clients"
            for column, whose in columns.items():
                cells = [_cell(folder, replace(shown, column=column)) for shown in ROWS]
                lines.append(_line(task.name, f"{_setting(folder, words)}; {whose}", cells))
    return "\n".join(lines) + "\n"


def _head(methods: Sequence[Shown]) -> list[str]:
    titles = [shown.title for shown in methods]
    return [
        "| data | setting | " + " | ".join(titles) + " |",
        "|---|---" + "|---:" * len(titles) + "|",
    ]


def _line(task: str, setting: str, cells: Sequence[str]) -> str:
    return f"| {task} | {setting} | " + " | ".join(cells) + " |"


def _setting(folder: str, words: str) -> str:
    """What is trained here, how long and how often."""
    plan = study(folder)
    return f"**here:** {words}, {plan.setting.rounds} rounds, {len(plan.seeds)} seeds"


def _published(task: Task, shown: Shown, key: str) -> str:
    """A cell of the paper, as the studies of its task have it."""
    for folder in (task.printed, *task.ours):
        for method in read_study(STUDIES / f"{folder}.toml", check=False).methods:
            if method.label == shown.label and key in method.published:
                # a deviation of 0.001 is printed as such
                return " ± ".join(
                    f"{value:.3f}" if 0 < value < 0.005 else f"{value:.2f}"
                    for value in method.published[key]
                )
    return "-"


def _cell(folder: str, shown: Shown) -> str:
    """A cell of ours: mean and deviation over seeds."""
    score = score_of(folder, shown)
    if math.isnan(score.mean):
        return "not run"
    text = spread_text(score, 3 if "loss" in shown.column else 2)
    seeds = len(study(folder).seeds)
    there = len(finished(folder)[shown.label].runs)
    return text if there == seeds else f"{text} ({there} of {seeds} seeds)"


def score_of(folder: str, shown: Shown) -> Spread:
    """The mean of the last tenth of a run over seeds, accuracies in per cent; NaN without a run."""
    group = finished(folder).get(shown.label)
    if group is None:
        return Spread.of([])
    score = spread_of(group, lambda run: run.final(shown.column))
    return score if "loss" in shown.column else in_percent(score)


def c_table() -> str:
    """Accuracy and trials by Armijo's c."""
    lines = [
        "| data | method | | " + " | ".join(f"c = {value:g}" for value in C_VALUES) + " |",
        "|---|---|---" + "|---:" * len(C_VALUES) + "|",
    ]
    for task, folder in VARIED_C.items():
        for family in ("FedSLS", "FedExpSLS"):
            found = by_c(folder, family)
            scores = ["not run"] * len(C_VALUES)
            trials = list(scores)
            for place, value in enumerate(C_VALUES):
                if value in found:
                    scores[place] = spread_text(in_percent(found[value].score))
                    trials[place] = f"{found[value].trials:.2f}"
            lines.append(_line(task, f"{family} | accuracy, %", scores))
            lines.append(_line(task, f"{family} | trials a step", trials))
    return "\n".join(lines) + "\n"


def by_c(folder: str, family: str) -> dict[float, MethodSummary]:
    """A method at the values of c at which it was run, in their order."""
    if not finished(folder):
        return {}
    methods = [each for each in compared(folder).methods if each.family == family]
    return dict(sorted((each.varied["c"], each) for each in methods))


def first_step_table() -> str:
    """Accuracy by the first step of a round's searches."""
    lines = [
        "| data | method | 0.1 | **1** | 10 | FedAvg, tuned |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for task, folder in FIRST_STEPS.items():
        for shown in SEARCHES:
            methods = (*by_first_step(shown).values(), ROWS[0])
            cells = [_cell(folder, each) for each in methods]
            lines.append(_line(task, shown.title, cells))
    return "\n".join(lines) + "\n"


def by_first_step(shown: Shown) -> dict[float, Shown]:
    """A method at other first steps, and at that of the paper's program."""
    other = {at: replace(shown, label=f"{shown.label}{FIRST_STEP}{at:g}") for at in (0.1, 10.0)}
    return {0.1: other[0.1], 1.0: shown, 10.0: other[10.0]}
