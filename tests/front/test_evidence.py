"""The tables of docs/evidence.md are those of the committed results."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def docs(monkeypatch):
    """The scripts of the folder import each other."""
    monkeypatch.syspath_prepend(str(DOCS))


def test_the_page_has_the_numbers_of_the_results(docs):
    evidence = importlib.import_module("evidence")
    assert evidence.made() == (DOCS / "evidence.md").read_text()


def test_every_folder_of_results_that_the_page_names_is_there(docs):
    curves = importlib.import_module("evidence_curves")
    for table in curves.TABLES:
        for part in table.parts:
            groups = curves.groups_of(part)
            assert groups, part
            found = {group.label for group in groups}
            assert set(part.labels) <= found
