"""Charts can be told apart without colour, hold their lines, and come with their numbers."""

from __future__ import annotations

import csv
import io
import math
import re
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from urllib.parse import unquote

import homes
import pytest
import torch

import fedstep
from fedstep.analysis.compare import compare
from fedstep.analysis.csv_text import csv_text
from fedstep.analysis.group import Group
from fedstep.analysis.results import load_results
from fedstep.report import panels
from fedstep.report.axis import Axis
from fedstep.report.chart import Chart, Series
from fedstep.report.end_names import LABEL_HEIGHT
from fedstep.report.figures import LINE_STYLES, MARKER_STYLES
from fedstep.report.page import figure, first_figure
from fedstep.report.render import render
from fedstep.report.report import runs_page, study_page
from fedstep.report.style import COLOURS, DASHES, MARKERS, colour_pair, line_style
from fedstep.report.svg import draw, draw_wide
from fedstep.run.history import Run


@pytest.fixture
def results(tmp_path):
    homes.make(tmp_path)
    return load_results(tmp_path)


def lines(count, **more):
    x = [1.0, 2.0, 3.0]
    return tuple(
        Series(f"line {k}", x, [k, k + 0.5, k + 1.0], line_style(k), **more) for k in range(count)
    )


def test_no_two_of_thirty_five_methods_look_alike_in_grey():
    looks = {(line_style(k).dash, line_style(k).marker) for k in range(35)}
    assert len(looks) == 35


def test_neighbours_differ_in_colour_dash_and_marker():
    for k in range(40):
        one, two = line_style(k), line_style(k + 1)
        assert one.colour != two.colour
        assert one.dash != two.dash
        assert one.marker != two.marker


def test_papers_have_as_many_looks_as_pages():
    assert len(set(map(str, LINE_STYLES))) == len(DASHES)
    assert len(set(MARKER_STYLES)) == len(MARKERS)


def test_the_lines_drawn_carry_their_dashes_and_markers():
    svg = draw(Chart("t", "x", "y", lines(9)))
    groups = [g for g in ET.fromstring(svg).iter("g") if g.get("class", "").startswith("series")]
    looks = []
    for group in groups:
        line, mark = group.findall("path")
        outline = re.match(r"M\S+ \S+?(m.*?z)", mark.get("d"))[1]
        looks.append((group.get("class"), line.get("stroke-dasharray"), outline))
    assert len(groups) == 9
    assert all(a != b for a, b in combinations(looks, 2))
    assert len({look[1:] for look in looks}) == 9


def test_dots_are_drawn_with_the_marker_of_their_method():
    svg = draw(Chart("t", "x", "y", lines(2, dots=True)))
    assert svg.count(line_style(0).marker) == 3
    assert svg.count(line_style(1).marker) == 3
    # so few that each must be found at a glance; a cloud is drawn faintly
    assert svg.count('"mark few"') == 2
    cloud = Series("a", [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], line_style(0), dots=True)
    assert '"mark dots"' in draw(Chart("t", "x", "y", [cloud]))


def test_an_axis_begins_and_ends_with_the_data():
    axis = Axis.over([3.0, 7.0, math.nan, math.inf], 0, 100, log=False)
    assert (axis.low, axis.high) == (3.0, 7.0)
    assert (axis.at(3.0), axis.at(7.0)) == (0, 100)
    assert all(3 <= tick <= 7 for tick in axis.ticks())


@pytest.mark.parametrize("ends", [(0.8, 1.6), (1.01, 1.9), (0.01, 0.05), (2.1, 9.0), (1e-6, 10)])
def test_a_logarithmic_axis_has_at_least_three_marks(ends):
    assert 3 <= len(Axis.over(ends, 0, 100, log=True).ticks()) <= 9


@pytest.mark.parametrize("counts", [[1, 1, 1], [0, 1], [0, 2, 3], [2, 14]])
def test_counts_are_marked_at_whole_numbers(counts):
    marks = Axis.over(counts, 0, 100, log=False).ticks()
    assert marks
    assert all(mark == int(mark) for mark in marks)


def test_names_at_the_ends_of_lines_do_not_cover_each_other():
    x = [1.0, 2.0]
    series = [Series(f"line {k}", x, [k, 1 + k / 1000], line_style(k)) for k in range(12)]
    svg = ET.fromstring(draw_wide(Chart("t", "x", "y", tuple(series))))
    ends = [g for g in svg.iter("g") if " end " in g.get("class", "")]
    places = sorted(float(g.find("text").get("y")) for g in ends)
    assert len(places) == 12
    assert min(b - a for a, b in pairwise(places)) >= LABEL_HEIGHT - 0.11  # written to a tenth


def test_every_figure_offers_its_numbers(results):
    page = render(study_page(results, compare(results)))
    links = re.findall(r'href="data:text/csv;charset=utf-8,([^"]*)"', page)
    assert len(links) == page.count("<figure")
    for link in links:
        rows = list(csv.reader(io.StringIO(unquote(link.replace("&#39;", "'")))))
        assert len({len(row) for row in rows}) == 1
        assert len(rows) > 1


def test_the_numbers_offered_are_those_drawn(results):
    chart = panels.metric_charts(results.groups)[0]
    rows = list(csv.reader(io.StringIO(chart.csv())))
    assert rows[0] == ["line", "round", "accuracy, %", "low", "high"]
    mine = [row for row in rows if row[0] == "FedSLS"]
    drawn = next(s for s in chart.series if s.name == "FedSLS")
    assert [float(row[2]) for row in mine] == pytest.approx(list(drawn.y), rel=1e-4)
    assert [float(row[4]) for row in mine] == pytest.approx(list(drawn.band.high), rel=1e-4)


def test_text_that_a_spreadsheet_would_run_is_quoted_and_numbers_are_not():
    text = csv_text(["@head", "b"], [["=1+1", -0.5], ["-0.5", "+cmd"], ["", None]])
    assert text.splitlines() == ["'@head,b", "'=1+1,-0.5", "-0.5,'+cmd", ","]


def test_a_missing_value_is_an_empty_cell_and_a_gap_in_the_line():
    line = Series("a", [1.0, 2.0, 3.0, 4.0], [1.0, math.nan, 3.0, 4.0], line_style(0))
    chart = Chart("t", "x", "y", (line,))
    assert chart.csv().splitlines()[2] == "a,2,"
    path = re.search(r'class="line" d="([^"]*)"', draw(chart))[1]
    assert path.count("M") == 2


def test_a_page_begins_with_a_sentence_and_a_chart(results):
    page = render(study_page(results, compare(results)))
    body = page[page.index("<body>") :]
    order = [body.index(mark) for mark in ('<p class="summary">', "<figure", "<table")]
    assert order == sorted(order)
    assert body.count("<table") > 1


def test_the_chart_that_opens_a_page_is_shown_once(results):
    page = render(study_page(results, compare(results)))
    assert page.count("<span>Test accuracy by round</span>") == 1


def test_a_page_offers_the_command_that_makes_it(results):
    page = render(study_page(results, compare(results)))
    command = (
        '<div class="command"><pre>fedstep run study.toml</pre><button type="button" data-copy>'
    )
    assert command in page
    settings = {"method": "fedsls(c=0.3)", "rounds": 9, "per_round": 3, "seed": 1}
    page = render(runs_page("t", results.groups[0].runs[:1], settings=settings))
    call = "fedstep.fit(model, clients, &#39;fedsls(c=0.3)&#39;, rounds=9, per_round=3, seed=1)"
    assert call in page


def test_a_run_and_a_study_are_the_same_page(results):
    one = render(runs_page("t", [run for group in results.groups for run in group.runs[:1]]))
    study = render(study_page(results, compare(results)))
    for title in ("What was reached", "What it cost", "Test accuracy by cost", "Trials a step"):
        assert f">{title}<" in one
        assert f">{title}<" in study


def test_a_single_run_has_one_table_of_two_columns(results):
    page = render(runs_page("t", results.groups[1].runs[:1]))
    assert page.count("<table") == 1
    assert "<td>accuracy %</td>" in page
    assert 'class="legend"' not in page


def test_runs_without_accuracy_open_with_their_loss(results):
    rows = [
        {**row, "accuracy": None, "last_accuracy": None} for row in results.groups[0].runs[0].rows
    ]
    run = type(results.groups[0].runs[0])("bare", rows)
    page = runs_page("t", [run])
    assert page.first.title == "Training loss by round"
    assert page.summary == "No accuracy was measured."


def test_clients_that_did_not_answer_have_a_chart_of_their_own():
    rows = [{"round": k, "loss": 1.0, "rejected": 0, "missing": k} for k in (1, 2, 3)]
    charts = panels.client_charts([Group.alone(Run("fedavg", rows))])
    assert [chart.title for chart in charts] == ["Clients missing"]


def test_a_page_without_a_metric_explains_no_columns_that_it_lacks():
    rows = [{"round": k, "loss": 1.0} for k in (1, 2, 3)]
    page = render(runs_page("run", [Run("fedavg", rows)]))
    assert "All rounds" in page
    assert "at least" not in page
    assert "evaluated rounds" not in page


def test_tables_scroll_inside_the_page(results):
    page = render(study_page(results, compare(results)))
    assert page.count("<table") == len(
        re.findall(r'<div class="scroll" tabindex="0">\s*<table', page)
    )


def test_a_figure_for_wide_screens_has_a_small_one_for_phones():
    chart = Chart("t", "x", "y", lines(2))
    assert first_figure(chart).svg == figure(chart).svg
    assert first_figure(chart).wide_svg != figure(chart).svg


def test_the_page_of_a_fit_folder_offers_the_call_and_not_a_study(tmp_path):
    g = torch.Generator().manual_seed(0)
    clients = [(torch.randn(9, 3, generator=g), torch.arange(9) % 2) for _ in range(3)]
    fedstep.fit(torch.nn.Linear(3, 2), clients, "fedsls", rounds=2, out=tmp_path / "a")
    results = load_results(tmp_path / "a")
    page = study_page(results, compare(results))
    assert page.command == "fedstep.fit(model, clients, 'fedsls', rounds=2, per_round=3, seed=0)"
    assert "scale" not in " ".join(page.texts)
    assert "tuning" not in page.made


def test_no_two_of_sixty_methods_share_a_colour():
    pairs = [colour_pair(k) for k in range(60)]
    for shade in zip(*pairs, strict=True):
        channels = [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in shade]
        for k, one in enumerate(channels):
            for other in channels[:k]:
                assert max(abs(a - b) for a, b in zip(one, other, strict=True)) >= 4


def luminance(colour):
    def linear(c):
        return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_colours_stand_out_from_the_page():
    """A line needs a contrast of 3 to its ground (WCAG 1.4.11); the grounds are those of the CSS."""
    for k in range(60):
        light, dark = map(luminance, colour_pair(k))
        assert (luminance("#f7f8fa") + 0.05) / (light + 0.05) >= 3, k
        assert (dark + 0.05) / (luminance("#1a2028") + 0.05) >= 3, k


def seen_without(colour, matrix):
    rgb = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [sum(m * c for m, c in zip(row, rgb, strict=True)) for row in matrix]


def test_the_first_colours_differ_for_colour_blind_eyes():
    # Machado et al. (2009), severity 1: protanopia and deuteranopia
    kinds = (
        ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
        ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    )
    for matrix in kinds:
        for shade in zip(*COLOURS[:6], strict=True):
            seen = [seen_without(colour, matrix) for colour in shade]
            for k, one in enumerate(seen):
                for other in seen[:k]:
                    assert max(abs(a - b) for a, b in zip(one, other, strict=True)) > 0.08
