"""Folders of results that damage is done to, and what is asked of them afterwards.

A folder is made once. Every trial damages one file of a copy; then everything that reads the folder is asked, and the run is
done again. Each answer must be the right one, or one line that names the file.
"""

from __future__ import annotations

import csv
import io
import random
import shutil
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

import fedstep
from fedstep.cli import main
from fedstep.core.errors import InputError
from fedstep.execute import store as disk

STUDY = """
title = "Damage"
data = "synthetic"
model = "logistic(inputs=40, classes=10)"
rounds = 3
per_round = 3
partition = "Dirichlet(alpha=0.5, clients=6)"
steps = 2
batch = 5
every = 1
seeds = [0]
[tuning]
rounds = 2
[[methods]]
label = "FedAvg"
spec = "fedavg(step={step})"
grid.step = [0.01, 0.1]
[[methods]]
label = "SCAFFOLD"
spec = "scaffold(step=0.1)"
"""
ROUNDS = 4
# no part of what a run says: who holds the folder, and when
IGNORED = ("lock", "owner.json")


@dataclass(frozen=True)
class Answer:
    """What a question was answered with: a value, or one line of refusal."""

    value: object = None
    refusal: str | None = None


Question = Callable[[Path], Answer]


@dataclass(frozen=True)
class Subject:
    """A folder and the questions that are asked of it."""

    folder: Path
    questions: dict[str, Question]


def command(*arguments: str) -> Answer:
    """A command of the command line; what it prints, or its one line on stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    if code == 0:
        return Answer(out.getvalue())
    lines = err.getvalue().strip().splitlines()
    assert code == 2, (code, lines)
    refusals = [line for line in lines if line.startswith("fedstep: ")]
    assert len(refusals) == 1, lines
    return Answer(refusal=refusals[0])


def exported(home: Path) -> Answer:
    """Every row, less the clock."""
    target = home.parent / "rows.csv"
    answer = command("export", str(home), "--csv", str(target))
    if answer.refusal is not None:
        return answer
    rows = list(csv.DictReader(target.open()))
    for row in rows:
        row.pop("seconds")
    return Answer(rows)


def compared(home: Path) -> Answer:
    return command("compare", str(home), "--markdown")


def drawn(home: Path) -> Answer:
    """The page is made; what it shows is what `compared` prints, and the map of labels."""
    answer = command("report", str(home), "--out", str(home.parent / "page.html"))
    if answer.refusal is not None:
        return answer
    page = (home.parent / "page.html").read_text()
    return Answer("Labels of the clients" in page)


def done_again(home: Path) -> Answer:
    """`fedstep run` once more, and then the rows."""
    home.parent.mkdir(parents=True, exist_ok=True)
    study = home.parent / "study-given.toml"
    study.write_text(STUDY)
    answer = command("run", str(study), "--out", str(home))
    if answer.refusal is not None:
        return answer
    return exported(home)


def fit(folder: Path, on_round=None, workers: int = 1) -> torch.Tensor:
    """A run with memories in files."""
    g = torch.Generator().manual_seed(1)
    clients = [(torch.randn(6, 3, generator=g), torch.arange(6) % 2) for _ in range(4)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
    before, disk.LARGE = disk.LARGE, 0
    try:
        done = fedstep.fit(
            model,
            clients,
            "scaffold(step=0.1)",
            rounds=ROUNDS,
            per_round=2,
            local_steps=2,
            batch=3,
            test=clients[0],
            out=folder,
            progress=False,
            on_round=on_round,
            workers=workers,
        )
    finally:
        disk.LARGE = before
    return done.x


def fitted(folder: Path) -> Answer:
    """`fit` once more: what it learns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a note of what was found damaged and done again
        try:
            return Answer(fit(folder).tolist())
        except InputError as error:
            return Answer(refusal=str(error))


def finished_study(place: Path) -> Subject:
    home = place / "home"
    made = done_again(home)
    assert made.refusal is None, made
    questions = {
        "export": exported,
        "compare": compared,
        "report": drawn,
        "run": done_again,
    }
    return Subject(home, questions)


def packed_study(place: Path) -> Subject:
    whole = finished_study(place / "whole").folder
    home = place / "home"
    home.mkdir(parents=True)
    for name in ("study.toml", "scale.txt", "tuning.json", "SHA256SUMS"):
        shutil.copy(whole / name, home / name)
    assert command("export", str(whole), "--pack", str(home / "results.jsonl.gz")).refusal is None
    return Subject(home, {"export": exported, "compare": compared})


def finished_fit(place: Path) -> Subject:
    fit(place / "home")
    return Subject(place / "home", {"export": exported, "fit": fitted})


def interrupted_fit(place: Path) -> Subject:
    """Stopped after its third round: two checkpoints, memories in files."""

    def stop(row):
        if row.round == ROUNDS - 1:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        fit(place / "home", stop)
    return Subject(place / "home", {"export": exported, "fit": fitted})


SUBJECTS = {
    "finished study": finished_study,
    "packed study": packed_study,
    "finished fit": finished_fit,
    "interrupted fit": interrupted_fit,
}


def flip(path: Path, draw: random.Random) -> None:
    """Another value for one byte."""
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= draw.randrange(1, 256)
    path.write_bytes(data)


def cut(path: Path, draw: random.Random) -> None:
    """The file ends somewhere inside."""
    data = path.read_bytes()
    path.write_bytes(data[: draw.randrange(len(data))])


def files(folder: Path) -> list[Path]:
    """Those that hold anything, in an order that does not depend on the file system."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in IGNORED and path.stat().st_size:
            found.append(path)
    return found


def is_prefix(part: object, whole: object) -> bool:
    """Whether rows are the first of the right ones: a run that is not finished has any number."""
    return isinstance(part, list) and isinstance(whole, list) and part == whole[: len(part)]


def verdict(answer: Answer, right: Answer, damaged: Path, unfinished: bool) -> str:
    """`right`, `named`, or what is wrong with the answer."""
    if answer.refusal is None:
        if answer.value == right.value:
            return "right"
        if unfinished and is_prefix(answer.value, right.value):
            return "right"
        return "believed"
    if "\n" in answer.refusal:
        return f"more than a line: {answer.refusal}"
    if damaged.name not in answer.refusal:
        return f"{damaged.name} is not named: {answer.refusal}"
    return "named"


def trials(
    subject: Subject,
    harm: Callable[[Path, random.Random], None],
    count: int,
    place: Path,
    seed: int,
) -> dict[str, int]:
    """Damage `count` times, ask everything; how many answers were right, named or wrong."""
    draw = random.Random(seed)
    right = {}
    for name, ask in subject.questions.items():
        copy = place / f"right {name}" / "home"
        shutil.copytree(subject.folder, copy)
        right[name] = ask(copy)
        assert right[name].refusal is None, right[name]
    outcome: dict[str, int] = {}
    for number in range(count):
        copy = place / f"trial {number}" / "home"
        shutil.copytree(subject.folder, copy)
        damaged = draw.choice(files(copy))
        before = damaged.read_bytes()
        harm(damaged, draw)
        after = damaged.read_bytes()
        worst = "right"
        for name, ask in subject.questions.items():
            # an answer may mend the folder (a run that is done again): each is asked of the damage
            if not damaged.exists() or damaged.read_bytes() != after:
                shutil.rmtree(copy)
                shutil.copytree(subject.folder, copy)
                damaged.write_bytes(after)
            try:
                answer = ask(copy)
            except Exception as error:
                shown = f"{name}, {damaged.relative_to(copy)}: {type(error).__name__}: {error}"
                found = f"traceback: {shown}"
            else:
                unfinished = "interrupted" in str(place) and name == "export"
                found = verdict(answer, right[name], damaged, unfinished)
                if found not in ("right", "named"):
                    found = f"{name}, {damaged.relative_to(copy)}: {found} ({_difference(before, after)})"
            if found != "right" and worst in ("right", "named"):
                worst = found
        outcome[worst] = outcome.get(worst, 0) + 1
        shutil.rmtree(copy.parent)
    return outcome


def _difference(before: bytes, after: bytes) -> str:
    """Where the damage lies, so that it can be done again by hand."""
    for place, (one, other) in enumerate(zip(before, after, strict=False)):
        if one != other:
            around = before[max(0, place - 20) : place + 20]
            return f"byte {place}: {one:#x} -> {other:#x} in {around!r}"
    return f"cut from {len(before)} to {len(after)} bytes"
