"""Flower's quickstart for PyTorch, and the three lines that make it ours."""

from __future__ import annotations

import difflib
import runpy
import sys
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from fedstep.flower import LocalGrid

FOLDER = Path(__file__).parents[2] / "examples" / "flower-quickstart"


@pytest.fixture
def quickstart(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(FOLDER))
    yield lambda name: runpy.run_path(str(FOLDER / name))
    sys.modules.pop("task", None)


def started(app, nodes=4):
    """The app's own ServerApp over a grid in this process."""
    context = Context(1, 1, node_config={}, state=RecordDict(), run_config={})
    app["server"](LocalGrid(app["client"], nodes), context)


def accuracy(printed):
    """Of the record that the app prints last."""
    return eval(printed.strip().splitlines()[-1])["accuracy"]


def test_three_lines_differ():
    before = (FOLDER / "before.py").read_text().splitlines()
    after = (FOLDER / "after.py").read_text().splitlines()
    changes = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert [line[0] for line in changes].count("-") == 3
    assert [line[0] for line in changes].count("+") == 3


def test_both_run_in_this_process_and_ours_learns_without_a_learning_rate(quickstart, capsys):
    started(quickstart("before.py"))
    flower = accuracy(capsys.readouterr().out)
    started(quickstart("after.py"))
    ours = accuracy(capsys.readouterr().out)
    assert 0.0 < flower < 1.0
    assert ours > 0.6
