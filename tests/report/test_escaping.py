"""Foreign text reaches a page as text: labels, specs, titles, a tuning seed, versions, paths."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import homes
import pytest

from fedstep.analysis.compare import compare
from fedstep.analysis.results import load_results
from fedstep.report.heatmap import heatmap
from fedstep.report.page import Page, Section, word_table
from fedstep.report.render import render
from fedstep.report.report import runs_page, study_page
from fedstep.run.history import Run

EVIL = "</title></style></script><script>alert('x')</script><img src=x onerror=\"alert(1)\">"


class Scripts(HTMLParser):
    """What a browser would run or load."""

    def __init__(self):
        super().__init__()
        self.scripts = 0
        self.others = []

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        if tag in ("img", "iframe", "object", "embed", "link", "base", "form"):
            self.others.append(tag)
        self.others += [name for name, _ in attrs if name.startswith("on")]


def harmless(text):
    reader = Scripts()
    reader.feed(text)
    assert reader.scripts == 1  # our own
    assert reader.others == []
    assert "alert(" in text  # the words are there, as words
    return True


@pytest.fixture
def results(tmp_path):
    homes.make(tmp_path)
    return load_results(tmp_path)


def page_of(results, **more):
    return render(study_page(results, compare(results), **more))


@pytest.mark.parametrize("field", ["title", "text"])
def test_words_of_a_study_are_escaped(results, field):
    assert harmless(page_of(replace(results, study=replace(results.study, **{field: EVIL}))))


def test_code_among_the_words_of_a_study_is_marked_and_escaped(results):
    text = f"the task `femnist`, and `{EVIL}`"
    page = page_of(replace(results, study=replace(results.study, text=text)))
    assert "<code>femnist</code>" in page
    assert harmless(page)


def test_a_tuning_seed_given_as_text_is_escaped(results):
    tuning = replace(results.study.tuning, seed=EVIL)
    assert harmless(page_of(replace(results, study=replace(results.study, tuning=tuning))))


def test_a_scale_is_escaped(results):
    assert harmless(page_of(replace(results, study=replace(results.study, scale=EVIL))))


def test_labels_specs_and_scores_are_escaped(results):
    first, *rest = results.groups
    choice = replace(first.choice, spec=EVIL, scores={EVIL: 0.5, "other": None})
    evil = replace(first, label=EVIL, choice=choice)
    assert harmless(page_of(replace(results, groups=(evil, *rest))))


def test_what_a_run_tells_of_itself_is_escaped(results):
    first, *rest = results.groups
    spec = {"digest": EVIL, "partition": EVIL, "versions": {EVIL: EVIL}}
    evil = replace(first, specs=tuple(spec for _ in first.specs))
    assert harmless(page_of(replace(results, groups=(evil, *rest))))


def test_settings_names_and_commands_of_a_run_are_escaped(results):
    rows = results.groups[0].runs[0].rows
    page = runs_page(EVIL, [Run(EVIL, rows), Run("b", rows)], EVIL, EVIL, {"method": EVIL})
    assert harmless(render(page))


def test_labels_and_titles_of_the_map_are_escaped():
    figure = heatmap([[1, 2], [3, 0]], [EVIL, "b"], EVIL)
    assert harmless(render(Page(EVIL, sections=(Section(EVIL, figures=(figure,)),))))


def test_cells_heads_and_notes_are_escaped():
    table = word_table([EVIL], [[EVIL]], title=EVIL)
    section = Section(EVIL, words=EVIL, code=EVIL, tables=(table,), notes=(EVIL,))
    assert harmless(render(Page("title", summary=EVIL, warning=EVIL, sections=(section,))))


def test_a_label_read_from_a_file_is_escaped(tmp_path):
    homes.make(tmp_path)
    study = (tmp_path / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(study.replace("FedSLS", "<script>alert(1)</script>"))
    choices = json.loads((tmp_path / "tuning.json").read_text())
    for choice in choices:
        choice["label"] = choice["label"].replace("FedSLS", "<script>alert(1)</script>")
    (tmp_path / "tuning.json").write_text(json.dumps(choices))
    assert harmless(page_of(load_results(tmp_path)))
