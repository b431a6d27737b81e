"""What docs/paper-results.md says of the paper, and that its numbers are of the runs it names."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
DATA = ("CIFAR-10", "CIFAR-100", "FEMNIST", "Shakespeare")
# by row of the paper's tables, a cell for each of DATA: copied from the paper, not from a study
LOSSES = {
    "FedAvg": (0.57, 2.07, 2.25, 1.81),
    "FedExP": (0.38, 1.44, 2.19, 2.12),
    "FedExProx": (0.43, 1.35, 1.57, 2.03),
    "FedSLS": (0.41, 1.12, 1.65, 1.69),
    "FedExpSLS": (0.13, 0.50, 1.60, 1.66),
}
ACCURACIES = {
    "FedAvg": (76.80, 40.94, 47.90, 47.67),
    "FedExP": (82.09, 50.24, 48.68, 47.81),
    "FedExProx": (81.79, 52.13, 58.13, 48.56),
    "FedSLS": (82.75, 46.53, 58.47, 49.94),
    "FedExpSLS": (87.29, 50.23, 60.92, 50.37),
}


@pytest.fixture
def paper(monkeypatch):
    """The tables of the page; the scripts of the folder import each other."""
    monkeypatch.syspath_prepend(str(DOCS / "numbers"))
    return importlib.import_module("paper")


def cells(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


@pytest.mark.parametrize(("name", "printed"), [("loss", LOSSES), ("accuracy", ACCURACIES)])
def test_every_cell_of_the_papers_tables_stands_in_ours(paper, name, printed):
    head, _, *rows = cells(getattr(paper, f"{name}_table")())
    of_paper = {row[0]: row for row in rows if row[1].startswith("the paper: ")}
    for method, numbers in printed.items():
        for data, number in zip(DATA, numbers, strict=True):
            cell = of_paper[data][head.index(method)]
            assert cell.startswith(f"{number:.2f} ± "), (data, method)


def test_a_cell_without_a_run_says_so(paper):
    assert paper._cell("no-such-folder", paper.ROWS[0]) == "not run"
    missing = paper.Shown("a method", "nobody has run this")
    assert paper._cell("femnist-pace", missing) == "not run"


def test_searches_at_another_first_step_stand_in_one_table_alone(paper):
    curves = importlib.import_module("evidence_curves")
    labels = [group.label for table in curves.TABLES for group in curves.whole_groups(table)]
    assert "FedSLS" in labels
    assert not [label for label in labels if "first step" in label]
    assert any("first step" in label for label in paper.finished("femnist-pace"))


def test_every_figure_of_the_page_is_there_and_every_one_that_is_there_is_shown():
    page = (DOCS / "paper-results.md").read_text()
    shown = set(re.findall(r"images/paper/([a-z0-9-]+\.svg)", page))
    assert shown == {path.name for path in (DOCS / "images" / "paper").iterdir()}
