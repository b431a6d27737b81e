"""Child processes: they end with their parent, and their parent does not wait for them for ever."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path

# seconds that a process has to end by itself before it is killed, and to be gone after that
GRACE = 5.0
PR_SET_PDEATHSIG = 1  # of linux/prctl.h, which Python does not export


def end_with_parent() -> None:
    """End this process when its parent ends, however that happens (Linux).

    Called by a child that multiprocessing started.
    """
    parent = parent_process()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    # The signal comes for deaths from now on only. A parent that died while this process was
    # importing is no longer its parent, and nobody would ever end it.
    if parent is not None and parent.pid != os.getppid():
        os._exit(1)


def end_processes(processes: Sequence[BaseProcess], grace: float = GRACE) -> None:
    """Wait until these processes have ended; after `grace` seconds they are killed.

    A process that another death has left waiting for a lock, or that is stopped, would never end by
    itself.
    """
    for process in processes:
        process.join(grace)
    # all are killed before any is waited for: they die side by side
    for process in processes:
        if process.is_alive():
            process.kill()
    for process in processes:
        process.join(grace)


def is_stopped(pid: int | None) -> bool:
    """Whether a process is stopped (SIGSTOP, a debugger), where the system tells (Linux)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        # no such system, or no such process any more
        return False
    # "4711 (a name that may hold ") ") S ...": the state comes behind the last bracket
    state = text.rpartition(") ")[2][:1]
    return state in ("T", "t")
