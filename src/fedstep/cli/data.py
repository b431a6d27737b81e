"""`fedstep data`: which tasks there are, where their files go, and whether they can be read."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fedstep.cli.options import add_data, add_json, print_json
from fedstep.core.errors import InputError
from fedstep.data.sets import DataSet, data_set, data_sets
from fedstep.run.terminal import console

if TYPE_CHECKING:
    from fedstep.data.sets.record import Raw

NOTE = (
    "Every file may be plain or end in .gz, .xz or .bz2. "
    "Of CIFAR-10's data_batch_1 to _5 the first suffices; "
    "the writers of femnist/heldout/*.json, if it is there, never train."
)


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    data = commands.add_parser("data", help="the tasks: list, check or import their files")
    kinds = data.add_subparsers(metavar="what", required=True)
    listing = kinds.add_parser(
        "list",
        help="tasks, where their files go, and whether they are there",
    )
    listing.set_defaults(run=list_tasks)
    check = kinds.add_parser("check", help="read the files of every task, or of those named")
    check.add_argument(
        "tasks",
        nargs="*",
        metavar="TASK",
        help="tasks to read (default: all that have files)",
    )
    check.set_defaults(run=check_tasks)
    bring = kinds.add_parser(
        "import",
        help="read a task once and keep it in the cache, so that runs start quickly",
    )
    bring.add_argument("task", metavar="TASK", help="a task of `fedstep data list`")
    bring.add_argument(
        "--hub",
        action="store_true",
        help="from the Hugging Face hub instead of files (extra `hub`)",
    )
    bring.set_defaults(run=import_task)
    for command in (listing, check, bring):
        add_data(command)
    for command in (listing, check):
        add_json(command)


def list_tasks(options: argparse.Namespace) -> None:
    """A table of the tasks, and how to read it."""
    data = _directory(options)
    if options.json:
        print_json({"directory": data and str(data), "tasks": _task_records(data)})
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0))
    table.add_column("task", no_wrap=True)
    table.add_column("found", max_width=14)
    table.add_column("what it is, and its files in the data directory")
    for record in data_sets().values():
        table.add_row(record.name, _availability(record, data), "\n".join(_lines(record)))
    terminal = console()
    terminal.print(table)
    # lines of a file or a pipe are not broken: they are for searching
    terminal.print(
        f"Data directory: {_directory_text(data)}\n{NOTE}",
        soft_wrap=not terminal.is_terminal,
    )


def _task_records(data: Path | None) -> list[dict[str, object]]:
    described: list[dict[str, object]] = []
    for record in data_sets().values():
        description: dict[str, object] = {
            "task": record.name,
            "what": record.what,
            "found": _availability(record, data),
            "folders": record.folders,
            "files": record.needs,
            "missing": record.missing(data),
            "hub": record.hub or None,
        }
        described.append(description)
    return described


def check_tasks(options: argparse.Namespace) -> int:
    """Read each task; 2 if one that was asked for cannot be used."""
    from fedstep.data.directory import directory

    chosen = [data_set(name) for name in options.tasks]
    if _directory(options):
        directory(options.data)  # a mistyped directory is one error, not one a task
    terminal = console()
    results = []
    for record in chosen or data_sets().values():
        result = _checked(record, options.data)
        results.append(result)
        if not options.json:
            state = result["state"]
            terminal.print(f"{record.name:<12} {state:<7} {result['text']}", soft_wrap=True)
    if options.json:
        print_json(results)
    states = {result["state"] for result in results}
    # that files are absent is an error only where the task was asked for by name
    if not options.tasks:
        states.discard("absent")
    if states <= {"ok"}:
        return 0
    return 2


def _checked(record: DataSet, data: Path | None) -> dict[str, str]:
    """What reading a task came to."""
    from fedstep.data.directory import Absent

    # read, not looked at: only a whole reading tells whether files are good
    begun = perf_counter()
    try:
        summary = _summary(record.read(data))
    except InputError as error:
        # a task without files that cannot be read lacks an extra, which is no damage
        absent = isinstance(error, Absent) or not record.folders
        state = "broken"
        if absent:
            state = "absent"
        return {"task": record.name, "state": state, "text": str(error)}
    text = f"{summary}, {perf_counter() - begun:.1f} s"
    return {"task": record.name, "state": "ok", "text": text}


def import_task(options: argparse.Namespace) -> None:
    """Fill the cache from files or from the hub."""
    record = data_set(options.task)
    # made here: the cache would hold what is made in a second
    if not record.folders:
        raise InputError(f"task {options.task} needs no files: there is nothing to import")
    from fedstep.data.cache import home
    from fedstep.data.tasks import fetch

    begun = perf_counter()
    if options.hub:
        raw = fetch(options.task)
    else:
        raw = record.read_files(options.data)
    seconds = perf_counter() - begun
    terminal = console()
    terminal.print(
        f"{options.task}: {_summary(raw)}, {seconds:.1f} s; kept in {home()}",
        soft_wrap=True,
    )
    # files come before the cache, so an import from the hub would be for nothing
    data = _directory(options)
    if options.hub and data and len(record.missing(data)) < len(record.needs):
        terminal.print(f"but the files in {data} will be used before it", soft_wrap=True)


def _directory(options: argparse.Namespace) -> Path | None:
    chosen = options.data or os.environ.get("FEDSTEP_DATA")
    if not chosen:
        return None
    return Path(chosen)


def _directory_text(data: Path | None) -> str:
    if data is None:
        return "none: give --data DIRECTORY or set FEDSTEP_DATA"
    if not data.is_dir():
        return f"{data} (there is no such directory)"
    return str(data)


def _lines(record: DataSet) -> list[str]:
    """What is worth telling of a data set."""
    # what it is comes first: names of files are for whoever wants it
    lines = [record.what]
    if not record.needs:
        lines.append("no files needed")
    for names in record.needs:
        lines.append(f"{record.folders[0]}/{' or '.join(names)}")
    # other versions of the same archive
    for folder in record.folders[1:]:
        lines.append(f"or the same in {folder}/")
    if record.hub:
        lines.append(f"hub: {record.hub}")
    return lines


def _summary(raw: Raw) -> str:
    targets = raw.train[1]
    counts = f"{len(targets):,} train"
    if raw.test is None:
        counts += " samples"
    else:
        counts += f" + {len(raw.test[1]):,} test samples"
    parts = [counts]
    if raw.heldout is not None:
        parts.append(f"{len(raw.heldout[1]):,} held out")
    # numbers have as many values as samples: to count them says nothing
    if targets.is_floating_point():
        parts.append("no labels")
    else:
        parts.append(f"{len(set(targets.tolist()))} labels")
    if raw.ids is None:
        parts.append("no natural clients")
    else:
        parts.append(f"{len(set(raw.ids.tolist()))} clients")
    return ", ".join(parts)


def _availability(record: DataSet, data: Path | None) -> str:
    """Whether a task can be had: from its files, from the cache, or not."""
    # by names alone: whether the files are good is for `data check`
    missing = record.missing(data)
    if not missing:
        return "yes"
    if len(missing) < len(record.needs):
        return f"in part, without {', '.join(missing)}"
    if record.has_hub_copy():
        return "hub copy"
    return "no"
