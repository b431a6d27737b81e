"""`fedstep data`: which tasks there are, where their files go, and whether they can be read."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from fedstep.core.errors import InputError, unknown

if TYPE_CHECKING:
    from fedstep.data.tasks import Raw

ENDINGS = ("", ".gz", ".xz", ".bz2")


@dataclass(frozen=True)
class Source:
    """A task's files: in one of `folders`, for each of `needs` one of the names; no folders: it needs no files."""

    what: str
    folders: tuple[str, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()
    hub: str = ""

    def lines(self) -> list[str]:
        """What is worth telling of it."""
        files = [f"{self.folders[0]}/{' or '.join(names)}" for names in self.needs]
        others = [f"or the same in {folder}/" for folder in self.folders[1:]]
        return [
            self.what,
            *(files or ["no files needed"]),
            *others,
            *([f"hub: {self.hub}"] if self.hub else []),
        ]

    def missing(self, data: Path) -> list[str]:
        """The files that are not there, each by its first name."""
        folder = next((data / f for f in self.folders if (data / f).is_dir()), None)
        if folder is None:
            return [names[0] for names in self.needs]
        return [names[0] for names in self.needs if not any(_there(folder, name) for name in names)]


# beside data/tasks.py, which cannot be asked without importing torch: tests/front/test_data_commands.py holds them together
SOURCES = {
    "femnist": Source(
        "handwritten characters by writer (LEAF)",
        ("femnist",),
        (("train/*.json",), ("test/*.json",)),
        "flwrlabs/femnist",
    ),
    "femnist-ink": Source(
        "the same with ink 1 on 0, as MNIST has it",
        ("femnist",),
        (("train/*.json",), ("test/*.json",)),
    ),
    "shakespeare": Source(
        "the next character, by speaking role (LEAF)",
        ("shakespeare/leaf",),
        (("train/*.json",), ("test/*.json",)),
        "flwrlabs/shakespeare",
    ),
    "cifar10": Source(
        "colour images, 10 classes",
        ("cifar-10-batches-bin", "cifar-10-batches-py"),
        (("data_batch_1.bin", "data_batch_1"), ("test_batch.bin", "test_batch")),
        "uoft-cs/cifar10",
    ),
    "cifar100": Source(
        "colour images, 100 classes",
        ("cifar-100-binary", "cifar-100-python"),
        (("train.bin", "train"), ("test.bin", "test")),
        "uoft-cs/cifar100",
    ),
    "mnist": Source(
        "handwritten digits, 28 x 28",
        ("mnist",),
        tuple(
            (f"{part}-{kind}-ubyte",)
            for part in ("train", "t10k")
            for kind in ("images-idx3", "labels-idx1")
        ),
        "ylecun/mnist",
    ),
    "digits": Source("handwritten digits, 8 x 8 (scikit-learn's)"),
    "synthetic": Source("generated clusters, 10 classes"),
    "plane": Source("the two clients of Figure 1, in the plane"),
}


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    kinds = commands.add_parser(
        "data", help="the tasks: list, check or import their files"
    ).add_subparsers(metavar="what", required=True)
    listing = kinds.add_parser(
        "list", help="tasks, where their files go, and whether they are there"
    )
    listing.set_defaults(run=list_tasks)
    check = kinds.add_parser("check", help="read the files of every task, or of those named")
    check.add_argument(
        "tasks", nargs="*", metavar="TASK", help="tasks to read (default: all that have files)"
    )
    check.set_defaults(run=check_tasks)
    bring = kinds.add_parser(
        "import", help="read a task once and keep it in the cache, so that runs start quickly"
    )
    bring.add_argument("task", metavar="TASK", help="a task of `fedstep data list`")
    bring.add_argument(
        "--hub",
        action="store_true",
        help="from the Hugging Face hub instead of files (extra `hub`)",
    )
    bring.set_defaults(run=import_task)
    for command in (listing, check, bring):
        command.add_argument(
            "--data", type=Path, help="directory of the data sets (default: FEDSTEP_DATA)"
        )


def list_tasks(options: argparse.Namespace) -> None:
    """A table of the tasks, and how to read it."""
    chosen = options.data or os.environ.get("FEDSTEP_DATA")
    data = Path(chosen) if chosen else None
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0))
    table.add_column("task", no_wrap=True)
    table.add_column("found", max_width=14)
    table.add_column("what it is, and its files in the data directory")
    for name, source in SOURCES.items():
        table.add_row(name, _found(name, data), "\n".join(source.lines()))
    console = Console(highlight=False)
    console.print(table, markup=False)
    state = "none: give --data DIRECTORY or set FEDSTEP_DATA" if data is None else str(data)
    console.print(
        f"Data directory: {state}{'' if data is None or data.is_dir() else ' (there is no such directory)'}\n"
        "Every file may be plain or end in .gz, .xz or .bz2. Of CIFAR-10's data_batch_1 to _5 the first suffices; "
        "the writers of femnist/heldout/*.json, if it is there, never train.",
        soft_wrap=not console.is_terminal,
        markup=False,
    )


def check_tasks(options: argparse.Namespace) -> int:
    """Read each task; 2 if one that was asked for cannot be used."""
    from fedstep.data import tasks

    for name in options.tasks:
        _source(name)
    if options.data or os.environ.get("FEDSTEP_DATA"):
        tasks.directory(options.data)  # a mistyped directory is one error, not one a task
    console, code = Console(highlight=False), 0
    for name in options.tasks or SOURCES:
        clock = perf_counter()
        try:
            said = f"ok      {_summary(tasks.read(name, options.data))}, {perf_counter() - clock:.1f} s"
        except InputError as error:
            absent = (
                isinstance(error, tasks.Absent) or not SOURCES[name].folders
            )  # the latter: an extra is missing
            said = f"{'absent' if absent else 'broken'}  {error}"
            code = 2 if options.tasks or not absent else code
        console.print(f"{name:<12} {said}", soft_wrap=True, markup=False)
    return code


def import_task(options: argparse.Namespace) -> None:
    """Fill the cache from files or from the hub."""
    source = _source(options.task)
    if not source.folders:
        raise InputError(f"task {options.task} needs no files: there is nothing to import")
    from fedstep.data import tasks
    from fedstep.data.cache import home

    clock = perf_counter()
    raw = tasks.fetch(options.task) if options.hub else tasks.TASKS[options.task](options.data)
    console = Console(highlight=False)
    told = f"{options.task}: {_summary(raw)}, {perf_counter() - clock:.1f} s; kept in {home()}"
    console.print(told, soft_wrap=True, markup=False)
    data = options.data or os.environ.get("FEDSTEP_DATA")
    if options.hub and data and len(source.missing(Path(data))) < len(source.needs):
        console.print(
            f"but the files in {data} will be used before it", soft_wrap=True, markup=False
        )


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise InputError(unknown("task", name, list(SOURCES)))
    return SOURCES[name]


def _summary(raw: Raw) -> str:
    targets = raw.train[1]
    parts = [
        f"{len(targets):,} train"
        + (" samples" if raw.test is None else f" + {len(raw.test[1]):,} test samples")
    ]
    parts += [f"{len(raw.heldout[1]):,} held out"] if raw.heldout is not None else []
    parts += [
        "no labels" if targets.is_floating_point() else f"{len(set(targets.tolist()))} labels"
    ]
    parts += [
        f"{len(set(raw.ids.tolist()))} clients" if raw.ids is not None else "no natural clients"
    ]
    return ", ".join(parts)


def _found(name: str, data: Path | None) -> str:
    """Whether a task can be had: from its files, from the cache, or not."""
    from fedstep.data.cache import place

    source = SOURCES[name]
    if not source.folders:
        return "yes"
    missing = [names[0] for names in source.needs] if data is None else source.missing(data)
    if not missing:
        return "yes"
    if len(missing) < len(source.needs):
        return f"in part, without {', '.join(missing)}"
    fetched = all(place(f"hub-{name}-{split}").is_file() for split in ("train", "test"))
    return "hub copy" if fetched else "no"


def _there(folder: Path, name: str) -> bool:
    return any(next(folder.glob(name + ending), None) is not None for ending in ENDINGS)
