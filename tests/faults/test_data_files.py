"""Whatever a data file holds, it is read or refused in one line, in bounded memory and time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="limits of memory are Linux's: /proc and RLIMIT_AS"
)


def outcomes(first: int, end: int) -> dict[str, object]:
    script = Path(__file__).with_name("data_files.py")
    done = subprocess.run(
        [sys.executable, str(script), str(first), str(end)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_damaged_and_hostile_files_are_read_or_refused_in_one_line():
    found = outcomes(0, 320)
    assert found["bad"] == []
    assert found["refused"] > 100  # the accidents do harm
    assert found["right"] > 50  # and not always: a pixel more or less is another good file
    assert found["hostile"] > 20


@pytest.mark.slow
def test_eighteen_thousand_damaged_files_are_read_or_refused_in_one_line():
    found = outcomes(320, 18_320)
    assert found["bad"] == []
    assert found["refused"] + found["right"] == 18_000
