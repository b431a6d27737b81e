"""Killed, stopped, out of space: the same command once more comes to the same bits.

`-m slow` kills before every file operation and at 125 random moments, and stops workers. The scripts
take other numbers: tests/faults/crashes.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="processes are found in /proc, and forked"
)
EACH = 0  # file operation


def outcome(kind: str, subject: str, count: int, place: Path) -> dict:
    script = Path(__file__).with_name("crashes.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), kind, subject, str(count), str(place)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(("kind", "subject"), [("points", "fit"), ("full", "fit")])
def test_an_accident_costs_nothing(kind, subject, tmp_path):
    found = outcome(kind, subject, 6, tmp_path)
    assert found["bad"] == []
    assert found["harmed"] >= 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "subject", "count"),
    [
        ("points", "fit", EACH),
        ("points", "workers", 40),
        ("points", "study", EACH),
        ("moments", "fit", 60),
        ("moments", "study", 60),
        ("moments", "spawned study", 5),
        ("full", "fit", EACH),
        ("full", "study", EACH),
        ("stops", "workers", 26),
        ("stops", "study", 26),
        ("closing", "workers", 26),
        ("closing", "study", 26),
    ],
)
def test_no_accident_costs_anything(kind, subject, count, tmp_path):
    found = outcome(kind, subject, count, tmp_path)
    print({**found, "bad": len(found["bad"])})
    assert found["bad"] == []
    # deletions need no space: not every operation meets a full disk. On a busy machine a worker has
    # often ended before it is stopped
    least = {"stops": 0.3}.get(kind, 0.7)
    assert found["harmed"] >= least * found["trials"]
