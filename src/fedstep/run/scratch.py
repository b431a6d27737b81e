"""A folder for what need not outlive the run, also where the run is killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX = "fedstep-"
LOCK = "lock"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder that is deleted at the end.

    What killed processes left behind is deleted first.
    """
    parent = Path(tempfile.gettempdir())
    ours = f"{PREFIX}{_user()}"
    # held while folders are made and cleared: a new folder must not be taken for a stale one before
    # it is locked
    with FileLock(parent / f"{ours}.lock"):
        for folder in parent.glob(f"{ours}-*"):
            _remove_stale(folder)
        made = tempfile.mkdtemp(prefix=f"{ours}-")
        folder = Path(made)
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=0)
    try:
        yield folder
    finally:
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)


def _remove_stale(folder: Path) -> None:
    """A lock that can be had belongs to nobody: the system frees it when its holder dies."""
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        # held by a run that is alive, or just being deleted by another process
        return
    lock.release()
    shutil.rmtree(folder, ignore_errors=True)


def _user() -> str:
    """Other people's folders lie beside ours."""
    if hasattr(os, "getuid"):
        return str(os.getuid())
    return getuser()
