"""Memory that was freed goes back to the system, where the C library would keep it.

torch asks glibc for aligned memory. A vector that is freed leaves a hole, which the next vector of
the same length does not fit into once a small object has taken its edge: that one lies behind it.
In a process that adds up the updates of many clients the holes pile up, and nothing in Python sees
them: `python benchmarks/far.py memory`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

# bytes of vectors between two looks: a look costs as much as a few small operators
LOOK = 8 * 2**20
# bytes of growth that are left alone: to give pages back and to take them again costs time
LEAST = 16 * 2**20
# bytes from which glibc maps every vector anew, however many of that length have come and gone
MAPPED = 32 * 2**20
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of malloc.h
STATM = Path("/proc/self/statm")


class Heap:
    """The heap of this process while vectors of one length come and go."""

    def __init__(self, vector_bytes: int) -> None:
        self._vector_bytes = vector_bytes
        # looked at between clients: what one at work holds is gone then, a vector may be on its way
        self._limit = max(LEAST, vector_bytes)
        self._unseen = 0
        self._base: int | None = None
        if vector_bytes >= MAPPED:
            keep_large_vectors()
        if vector_bytes >= LOOK:
            trim()  # what was done before leaves holes, too
            self._base = resident_bytes()

    def used(self, vectors: int = 1) -> None:
        """So many vectors have come and gone: give the holes back if there are many."""
        self._unseen += vectors * self._vector_bytes
        if self._unseen < LOOK:
            return
        self._unseen = 0
        if self._base is None:
            # not before: a round of a small model never comes here, and a look is an open file
            self._base = resident_bytes()
        elif resident_bytes() - self._base > self._limit:
            trim()
            # what is left is in use, and no reason to try again at once
            self._base = resident_bytes()


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not say."""
    try:
        pages = int(STATM.read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def trim() -> None:
    """Give the holes of the heap back to the system, where the C library is glibc."""
    release = _malloc_trim()
    if release is not None:
        release(0)


@cache
def keep_large_vectors() -> None:
    """From now on a freed vector's place serves the next one, however large, where glibc is at work.

    A vector in fresh pages costs five times as much as one in old pages: the system fills them with
    zeros first. What piles up is given back by `Heap`.
    """
    set_option = _glibc("mallopt")
    if set_option is not None:
        set_option(M_MMAP_MAX, 0)
        set_option(M_TRIM_THRESHOLD, 2**31 - 1)


def _malloc_trim() -> Callable[[int], int] | None:
    return _glibc("malloc_trim")


@cache
def _glibc(name: str) -> Callable[..., int] | None:
    """A function of glibc; other C libraries have none of these, and other allocators no such holes."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):  # a system without libraries of this kind
        return None
