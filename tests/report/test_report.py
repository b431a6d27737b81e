"""The page of a study says what the numbers say, and stays one small file."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import homes
import numpy as np
import pytest

from fedstep.analysis import curves
from fedstep.analysis.compare import compare
from fedstep.analysis.results import load_results
from fedstep.report.page import Figure
from fedstep.report.panels import jumps
from fedstep.report.render import render
from fedstep.report.report import study_page, write_study_report
from fedstep.report.verdict import verdict, verdict_details
from fedstep.run.columns import ACCURACY

OPEN = {"meta", "input", "br", "path", "circle"}


class Balanced(HTMLParser):
    """Fails where a tag is closed that is not the innermost open one."""

    def __init__(self):
        super().__init__()
        self.stack = []

    def handle_starttag(self, tag, attrs):
        if tag not in OPEN:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag


@pytest.fixture
def results(tmp_path):
    homes.make(tmp_path)
    return load_results(tmp_path)


def text_of(results, **more):
    return render(study_page(results, compare(results), **more))


def test_the_page_has_tables_charts_tuning_and_provenance(results):
    page = text_of(results)
    for title in (
        "What was reached",
        "What it cost",
        "Test accuracy by round",
        "Test accuracy by cost",
        "Test accuracy by traffic",
        "Readout and last iterate",
        "Training loss by round",
        "Step the clients accepted",
        "Trials a step",
        "Step the server took",
        "Extrapolation and what followed",
        "Tuning",
        "How it was made",
    ):
        assert f">{title}<" in page, title
    assert "Sensitivity" not in page
    assert "<b><code>fedavg(step=0.1)</code></b>" in page
    assert "fedstep run study.toml" in page
    assert "torch 2.4.0" in page
    assert all(str(spec["digest"]) in page for g in results.groups for spec in g.specs)
    assert "Not finished" not in page


def test_the_page_is_balanced_alone_and_reproducible(results, tmp_path):
    path = write_study_report(tmp_path / "a.html", results)
    page = path.read_text()
    reader = Balanced()
    reader.feed(page)
    assert reader.stack == []
    assert not re.search(r"src=|href=(?!\"data:text/csv)|https?://|@import|url\(", page)
    assert "NaN" not in page
    assert ">nan" not in page
    assert page == write_study_report(tmp_path / "b.html", results).read_text()


def test_labels_are_escaped(tmp_path):
    homes.make(tmp_path, methods=(("<i>&", "fedsls()", {}, 0.8, 0.01, False),))
    page = text_of(load_results(tmp_path))
    assert "<i>" not in page
    assert "&lt;i&gt;&amp;" in page


def test_unfinished_and_missing_runs_are_named(tmp_path):
    homes.make(tmp_path)
    (homes.folder_of(tmp_path, "FedSLS", 3) / "done.json").unlink()
    for seed in range(5):
        (homes.folder_of(tmp_path, "FedExpSLS", seed) / "rounds.jsonl").unlink()
    page = text_of(load_results(tmp_path))
    assert "Not finished: FedSLS seed 3 (round 20); FedExpSLS (not begun)." in page
    assert "5, 1 unfinished" in page


def test_a_parameter_that_the_study_varies_gives_the_sensitivity_panel(tmp_path):
    values = (0.5, 0.1, 0.3)
    methods = [(f"at {c}", f"fedsls(c={c})", {}, 0.8 - c / 10, 0.01, False) for c in values]
    varied = {f"at {c}": {"c": c} for c in values}
    homes.make(tmp_path, methods=tuple(methods), varied=varied)
    page = text_of(load_results(tmp_path))
    assert ">Accuracy against c<" in page
    assert ">Trials a step against c<" in page
    assert "Step the server took" not in page  # nothing extrapolates


def test_extra_figures_are_placed_as_they_are(results):
    extra = Figure(title="A map", svg="<svg id='map'></svg>", csv="a,b", full_width=True)
    assert "<svg id='map'></svg>" in text_of(results, extra=[extra])


def test_curves_are_thinned_and_keep_their_ends(tmp_path):
    homes.make(tmp_path, rounds=900, seeds=(0, 1), every=1)
    group = load_results(tmp_path).groups[1]
    curve = curves.mean_band(group, curves.metric_column(ACCURACY))
    assert len(curve.x) == 250
    assert (curve.x[0], curve.x[-1]) == (1, 900)
    assert len(text_of(load_results(tmp_path))) < 900_000  # with the numbers behind the figures


def test_bands_agree_with_numpy(tmp_path):
    _, rows = homes.make(tmp_path)
    group = load_results(tmp_path).groups[2]
    values = 100 * np.array(
        [
            [r["accuracy"] for r in rows["FedExpSLS", s] if r["accuracy"] is not None]
            for s in range(5)
        ]
    )
    curve = curves.mean_band(group, curves.metric_column(ACCURACY), curves.by_megabytes)
    assert curve.x == pytest.approx(np.arange(2, 21, 2) * 4.0)
    assert curve.y == pytest.approx(values.mean(0))
    assert curve.low == pytest.approx(values.mean(0) - values.std(0, ddof=1))
    eta = np.array([[r["eta_g"] for r in rows["FedExpSLS", s]] for s in range(5)])
    trace = curves.median_range(group, curves.run_column("eta_g"))
    assert trace.y == pytest.approx(np.median(eta, 0))
    assert trace.high == pytest.approx(eta.max(0))
    steps = np.array([[r["steps"] for r in rows["FedExpSLS", s]] for s in range(5)]).mean(0)
    found = curves.quartiles(group)
    for line, place in ((found.low, 1), (found.y, 2), (found.high, 3)):
        assert line == pytest.approx(steps[:, place])


def test_jumps_take_the_largest_server_step_between_evaluations(tmp_path):
    _, rows = homes.make(tmp_path)
    mine = rows["FedExpSLS", 0]
    eta = np.array([r["eta_g"] for r in mine]).reshape(10, 2)  # an evaluation every second round
    moved = 100 * np.diff([r["last_accuracy"] for r in mine[1::2]])
    found = jumps(load_results(tmp_path).groups[2].runs[0], ACCURACY)
    assert [x for x, _ in found] == list(eta.max(1)[1:])
    assert [y for _, y in found] == pytest.approx(moved)


def test_the_verdict_admits_what_seeds_cannot_tell(tmp_path):
    twins = [
        (name, spec, {}, 0.8, 0.0, False)
        for name, spec in (("A", "fedsls()"), ("B", "fedsls(c=0.2)"))
    ]
    homes.make(tmp_path, methods=(*twins, ("C", "fedavg(step=0.1)", {}, 0.4, 0.0, False)))
    comparison = compare(load_results(tmp_path))
    sentence = verdict(comparison)
    assert re.search(r"which these seeds do not tell apart from [AB]\.$", sentence)
    assert verdict_details(comparison).endswith(": C.")
    page = study_page(load_results(tmp_path), comparison)
    assert page.summary == sentence
    assert page.texts[0] == verdict_details(comparison)


def test_figures_are_png_and_pdf_with_the_same_bytes_each_time(results, tmp_path):
    pytest.importorskip("matplotlib")
    from fedstep.report.figures import study_figures

    one, two = (study_figures(results, tmp_path / name) for name in "ab")
    assert [p.name for p in one] == [
        f"{name}.{kind}"
        for name in (
            "accuracy-rounds",
            "accuracy-gradients",
            "loss-rounds",
            "steps-trials",
            "eta_g",
        )
        for kind in ("png", "pdf")
    ]
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]
