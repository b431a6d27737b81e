"""The tables of docs/evidence.md are those of the committed results."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def evidence():
    spec = importlib.util.spec_from_file_location("evidence", DOCS / "evidence.py")
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up by name
    sys.modules["evidence"] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_numbers_of_the_results():
    assert evidence().made() == (DOCS / "evidence.md").read_text()


def test_every_folder_of_results_that_the_page_names_is_there():
    module = evidence()
    for table in module.TABLES:
        for part in table.parts:
            groups = module.groups_of(part)
            assert groups, part
            found = {group.label for group in groups}
            assert set(part.labels) <= found
