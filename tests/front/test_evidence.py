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


def test_a_lead_is_over_whoever_is_best_in_that_round(docs):
    aim = importlib.import_module("evidence_aim")
    ours = {10.0: 50.0, 20.0: 60.0, 30.0: 61.0}
    rivals = {
        "slow": {10.0: 20.0, 20.0: 55.0, 30.0: 62.0},
        "quick": {10.0: 40.0, 20.0: 50.0},  # diverged on a seed: no mean at 30
    }
    assert aim.lead_cell(ours, rivals, 15) == "quick 40.0 at 10: 10"
    assert aim.lead_cell(ours, rivals, 20) == "slow 55.0 at 20: 20"
    assert aim.lead_cell(ours, rivals, 30) == "slow 62.0 at 30: never"


@pytest.mark.parametrize("trials", [(1, 1, 1, 4), (1, 2, 1, 2), (1, 1, 1, 1), (3, 1, 5, 9)])
def test_no_fewer_first_trials_held_than_their_mean_says(docs, trials):
    searches = importlib.import_module("answers_searches")
    ones = trials.count(1) / len(trials)
    held = searches.Searches("model", "method", trials, failed=0).held
    assert held <= ones
    # and as many where nobody needs more than two
    if max(trials) <= 2:
        assert held == ones


def test_averaged_runs_are_the_published_ones_with_another_model_scored(docs):
    curves = importlib.import_module("evidence_curves")
    compared = 0
    for table in curves.TABLES:
        groups = {group.label: group for group in curves.every_whole_group(table)}
        for label, averaged in groups.items():
            if not label.endswith(curves.AVERAGED):
                continue
            published = groups[label.removesuffix(curves.AVERAGED)]
            runs = dict(zip(published.seeds, published.runs, strict=True))
            for seed, run in zip(averaged.seeds, averaged.runs, strict=True):
                assert run.column("loss") == runs[seed].column("loss"), (table.name, label, seed)
                assert run.evaluated("last_accuracy") == runs[seed].evaluated("last_accuracy")
                compared += 1
    assert compared >= 20
