"""Every operation on the files of a folder, counted over all processes of a command.

Before the one of a given number something happens: the process dies, all processes die, or the disk
is full. Read by `crashes.py`, also in the processes that a pool starts anew: they find in the
environment what they are to do.
"""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass

VARIABLE = "FEDSTEP_TEST_OPERATIONS"
ENDLESS = 10**9  # the number of an operation that never comes: they are only counted
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Accident:
    """What happens before operation `at` under `folder`, of all that `counter` has seen."""

    folder: str
    counter: str  # a file: its length is the number of operations so far
    at: int = ENDLESS
    # "die", "all die" or "full"
    kind: str = "die"

    def install(self) -> None:
        """From now on, here and in all processes to come."""
        os.environ[VARIABLE] = json.dumps(asdict(self))
        watch(self)


def installed_by_parent() -> None:
    """Do what the environment says, if it does."""
    text = os.environ.get(VARIABLE)
    if text is not None:
        watch(Accident(**json.loads(text)))


def watch(accident: Accident) -> None:
    """Count the operations of this process and its forks."""
    length = os.open(accident.counter, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def happens(needs_space: bool = True) -> None:
        os.write(length, b".")
        if os.fstat(length).st_size < accident.at:
            return
        if accident.kind == "full":
            # from here on; but what is there can be deleted
            if not needs_space:
                return
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if accident.kind == "all die":
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def ours(path: object) -> bool:
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(accident.folder)

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if ours(path) and flags & WRITES:
                happens()
        # rmtree goes by names within a folder it has opened: all it deletes here is ours
        elif event in ("os.remove", "os.rmdir"):
            path, folder = args
            if ours(path) or folder != -1:
                happens(needs_space=False)
        elif event in ("os.rename", "os.mkdir", "os.truncate", "os.link") and ours(args[0]):
            happens()

    sys.addaudithook(hook)
    _watch_what_has_no_event(accident, happens, ours)


def _watch_what_has_no_event(accident, happens, ours) -> None:
    """A file that is made and still empty, and data that are written and not on the disk."""
    plain_open, plain_sync = io.open, os.fsync

    def open_then(file, mode="r", *args, **options):
        opened = plain_open(file, mode, *args, **options)
        # a disk that was full when the file was made is the hook's part
        if ours(file) and mode.strip("bt") != "r" and accident.kind != "full":
            happens()
        return opened

    def sync(descriptor):
        happens()
        plain_sync(descriptor)

    io.open, os.fsync = open_then, sync
