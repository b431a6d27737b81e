"""Processes that do not outlive the one that started them."""

from __future__ import annotations

import ctypes
import signal
import sys


def die_with_parent() -> None:
    """Ask the kernel to end this process when its parent ends, however that happens (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG
