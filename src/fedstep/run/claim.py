"""One process a run: a lock on its folder, and who holds it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from filelock import FileLock, Timeout

from fedstep.core.errors import InputError, named_errors

LOCK = "lock"
OWNER = "owner.json"  # read by people and by `check`; the lock itself says nothing of its holder


@dataclass(frozen=True)
class Owner:
    """The process that holds a folder; the random id tells apart two of the same number."""

    host: str
    pid: int
    id: str  # random

    @staticmethod
    def here() -> Owner:
        """This process, for one claim."""
        return Owner(
            host=socket.gethostname(),
            pid=os.getpid(),
            id=uuid4().hex,
        )


@dataclass(frozen=True)
class FolderClaim:
    """A folder that this process holds."""

    folder: Path
    owner: Owner

    def check(self) -> None:
        """Refuse to go on where another process has taken the folder.

        Some network file systems grant a lock to two machines at once, without an error: the file
        beside it tells.
        """
        holder = _read_owner(self.folder)
        if holder is not None and holder != self.owner:
            raise InputError(
                f"{self.folder}: another process{_named(holder)} has taken over this run; "
                "this one stops"
            )


@contextmanager
def claimed(folder: Path, patience: float = 0.0) -> Iterator[FolderClaim]:
    """Hold the folder's lock inside; a second process is refused after `patience` seconds.

    The system frees the lock when the holder dies. The lock file stays: removing it would let two
    processes lock two files of the same name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=patience)
    except Timeout:
        holder = _named(_read_owner(folder))
        raise InputError(
            f"{folder}: another process is working on this run{holder}; wait for it or stop it"
        ) from None
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; choose another directory") from None
    owner = Owner.here()
    try:
        text = json.dumps(asdict(owner))
        with named_errors(folder / OWNER):
            (folder / OWNER).write_text(text + "\n")
        yield FolderClaim(folder, owner)
    finally:
        # the file of one that took over is not ours to remove
        if _read_owner(folder) == owner:
            (folder / OWNER).unlink(missing_ok=True)
        lock.release()


def is_held(folder: Path) -> bool:
    """Whether a process works on the folder now, as far as can be told without touching the lock.

    Whoever only looks must not hold the lock, however shortly: a run that begins just then would be
    refused.
    """
    owner = _read_owner(folder)
    if owner is None:
        return False
    if owner.host != socket.gethostname():
        return True  # nobody here can tell
    try:
        os.kill(owner.pid, 0)  # asks whether there is such a process
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # somebody else's, and alive
    return True


def _read_owner(folder: Path) -> Owner | None:
    """Who wrote the file beside the lock; None where it is missing or being written."""
    try:
        text = (folder / OWNER).read_text()
        return Owner(**json.loads(text))
    except (OSError, ValueError, TypeError):
        # half a file is no other owner: `check` must not stop a run for it
        return None


def _named(owner: Owner | None) -> str:
    if owner is None:
        return ""
    return f" (process {owner.pid} on {owner.host})"
