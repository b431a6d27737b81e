"""The directory that the files of data sets are in, as the user has named it."""

from __future__ import annotations

import os
from pathlib import Path

from fedstep.core.errors import InputError
from fedstep.data.files import ENDINGS

LIST = "fedstep data list names the files"


class Absent(InputError):
    """There are no files of a data set."""


def directory(given: str | Path | None = None) -> Path:
    """The folder of the data sets: what was given, or FEDSTEP_DATA."""
    # what is said on the command line goes before what was set long ago
    chosen = given or os.environ.get("FEDSTEP_DATA")
    if not chosen:
        raise Absent(f"no data directory: give --data DIRECTORY or set FEDSTEP_DATA ({LIST})")
    # mistyped, and so not Absent: a copy of the hub must not be taken instead
    if not Path(chosen).is_dir():
        raise InputError(f"{chosen} is not a directory: give --data DIRECTORY or set FEDSTEP_DATA")
    return Path(chosen)


def files_in(folder: Path) -> list[Path]:
    """All files of a data set's folder, in whatever folders below."""
    return [path for path in folder.rglob("*") if path.is_file()]


def is_there(
    folder: Path,
    name: str,
) -> bool:
    """Whether the folder has a file of this name (it may have stars), packed or not."""
    # `any` of a generator of paths: whether there is one
    return any(any(folder.glob(name + ending)) for ending in ENDINGS)
