"""Options and arguments that several commands have."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from fedstep.core.errors import InputError, unknown
from fedstep.run.files import plain


def add_data(command: argparse.ArgumentParser) -> None:
    """Where the data sets are."""
    command.add_argument(
        "--data",
        type=Path,
        help="directory of the data sets (default: FEDSTEP_DATA)",
    )


def add_study(command: argparse.ArgumentParser) -> None:
    """Which study, at which scale."""
    command.add_argument(
        "study",
        metavar="STUDY",
        help="a TOML file, or the name of one of the paper's studies",
    )
    command.add_argument(
        "--scale",
        default="default",  # plan.FULL_SCALE, which would import torch here
        help="a scale of the file, such as small (default: the file as it is)",
    )


def add_results(command: argparse.ArgumentParser) -> None:
    """Where the results of a study go."""
    command.add_argument(
        "--out",
        type=Path,
        help="results directory (default: results/NAME, with the scale behind it)",
    )


def add_workers(command: argparse.ArgumentParser) -> None:
    """How many runs go on at a time."""
    command.add_argument(
        "--workers",
        type=int,
        default=1,
        help="processes (default: 1); the results are the same",
    )


def add_device(command: argparse.ArgumentParser) -> None:
    """Where models are computed."""
    command.add_argument(
        "--device",
        help="such as cuda (default: FEDSTEP_DEVICE, else cpu); batches are the same everywhere",
    )


def use_device(name: str | None) -> None:
    """For this command and all processes that it starts."""
    if name is None:
        return
    from fedstep.run.devices import VARIABLE, chosen_device

    chosen_device(name)
    os.environ[VARIABLE] = name


def add_json(command: argparse.ArgumentParser) -> None:
    """For programs: the numbers of a table as they are, before they are rounded into words."""
    command.add_argument(
        "--json",
        action="store_true",
        help="print JSON instead of tables",
    )


def print_json(value: Any) -> None:
    """The only thing on stdout of a command with --json; what is not finite is null."""
    # print, not the console: no width of a terminal may break the lines
    print(json.dumps(plain(value), indent=1))


def shipped_file(kind: str, name: str, folder: Path) -> Path:
    """A TOML file by its path, or by the name of one that comes with the package."""
    # a path that ends in .toml is never a name: a mistyped one is said to be missing, not unknown
    given = Path(name)
    if given.suffix == ".toml" or given.is_file():
        return given
    shipped = folder / f"{name}.toml"
    if not shipped.exists():
        names = sorted(path.stem for path in folder.glob("*.toml"))
        raise InputError(unknown(kind, name, names))
    return shipped


def check_rounds(rounds: int) -> None:
    """Refuse a number of rounds that is none."""
    if rounds < 1:
        raise InputError(f"--rounds {rounds}: give at least 1")
