"""What docs/evidence.md rests on: committed runs of today's default, and figures that are there."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fedstep import zoo
from fedstep.cli.study import SHIPPED
from fedstep.run.identity import text_of
from fedstep.spec import build
from fedstep.study.study_file import read_study
from fedstep.study.work import WEIGHTING

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def docs(monkeypatch):
    """The scripts of the folder import each other."""
    monkeypatch.syspath_prepend(str(DOCS / "numbers"))


def test_every_task_of_the_page_has_results(docs):
    curves = importlib.import_module("evidence_curves")
    for table in curves.TABLES:
        assert curves.whole_groups(table), table


def test_the_runs_of_the_untouched_default_are_of_what_it_is_today(docs):
    curves = importlib.import_module("evidence_curves")
    for table in curves.TABLES:
        (ours,) = (group for group in curves.whole_groups(table) if group.label == curves.OURS)
        for spec in ours.specs:
            today = build(spec["method"])
            weighting = WEIGHTING[spec["setting"]["weighting"]]
            assert spec["algorithm"] == text_of(replace(today, weighting=weighting)), table.name


def test_every_figure_of_the_page_is_there_and_every_one_that_is_there_is_shown():
    page = (DOCS / "evidence.md").read_text()
    shown = set(re.findall(r"images/evidence/([a-z-]+\.png)", page))
    assert shown == {path.name for path in (DOCS / "images" / "evidence").iterdir()}


@pytest.mark.parametrize("name", ["methods", "methods-femnist"])
def test_the_studies_of_every_method_have_every_method(name):
    study = read_study(SHIPPED / f"{name}.toml")
    labels = [method.label for method in study.methods]
    assert sorted(labels) == sorted(zoo.__all__)
    for method in study.methods:
        # settings may be others, where the study says why
        assert method.spec.partition("(")[0] == method.label
