"""One process a run: a lock on its folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedstep.core.errors import InputError


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold the folder's lock inside; a second process is refused. The system frees the lock when the holder dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        if not _locked(file.fileno()):
            raise InputError(
                f"{folder}: another process is working on this run; wait for it or stop it"
            )
        yield  # the file stays: removing it would let two processes lock two files of the same name


def _locked(descriptor: int) -> bool:
    if sys.platform == "win32":
        return True  # there is no lock that dies with its holder
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
