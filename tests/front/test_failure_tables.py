"""The tables of failures in the documentation name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize(("page", "rows"), [("docs/cluster.md", 9), ("docs/flower.md", 13)])
def test_every_test_that_a_table_of_failures_names_is_there(page, rows):
    lines = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("|")]
    named = [line for line in lines if NAMED.search(line)]
    assert len(named) == rows
    for file, test in NAMED.findall("\n".join(named)):
        assert f"def {test}(" in (ROOT / file).read_text(), f"{file} has no {test}"
