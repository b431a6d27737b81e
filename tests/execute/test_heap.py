"""Memory of large vectors: kept for the next one, and given back where it piles up."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

glibc_only = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone"
)

# In a process of its own: how malloc works is a setting of the whole process.
FRESH_PAGES = """
import resource, sys, torch
from fedstep.execute.heap import MAPPED, Heap

vector_bytes = int(sys.argv[1])
if vector_bytes:
    Heap(vector_bytes)
size = MAPPED // 4 + 1  # of four bytes each
del_me = torch.zeros(size)
del del_me
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.zeros(size)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def fresh_pages(vector_bytes: int) -> int:
    """How many pages ten vectors of 32 MB take anew, after one that has been freed."""
    command = [sys.executable, "-c", FRESH_PAGES, str(vector_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


@glibc_only
def test_the_place_of_a_large_vector_serves_the_next_one():
    left_alone = fresh_pages(vector_bytes=0)
    assert fresh_pages(vector_bytes=40 * 2**20) < left_alone / 5


@glibc_only
def test_models_whose_vectors_are_small_change_no_setting_of_the_process():
    left_alone = fresh_pages(vector_bytes=0)
    assert fresh_pages(vector_bytes=2**20) > left_alone / 2
