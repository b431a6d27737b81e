"""The map of labels by client shows the shares it is given."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from fedstep.core.errors import InputError
from fedstep.report.heatmap import heatmap
from fedstep.report.heatmap_cells import LEVELS
from fedstep.report.heatmap_png import save_png

COUNTS = [[9, 0, 0], [0, 1, 3], [2, 2, 0]]
NAMES = ["cat", "<dog>", "a & b"]


def tree(figure):
    return ET.fromstring(figure.svg)


def cells(figure):
    """Opacity of every cell that is filled, by client and label, measured from the drawn rectangles."""
    group = next(g for g in tree(figure).iter("g") if g.get("class") == "c0")
    boxes = []
    for path in group:
        for a, c, b, d in re.findall(r"M(\S+) (\S+)H(\S+)V(\S+)H\S+z", path.get("d")):
            boxes.append((float(a), float(b), float(c), float(d), float(path.get("opacity"))))
    columns = [
        (float(r.get("x")), float(r.get("width")))
        for r in tree(figure).iter("rect")
        if r.find("title") is not None
    ]
    top, high = min(c for _, _, c, _, _ in boxes), min(d - c for _, _, c, d, _ in boxes)
    seen = {}
    for client, (x, width) in enumerate(columns):
        for a, b, c, _, shade in boxes:
            if a <= x + width / 2 <= b:
                seen[client, round((c - top) / high)] = shade
    return seen


def test_a_cell_is_coloured_by_the_root_of_its_share_and_empty_cells_are_not_drawn():
    # shares: 1, -, - | -, 1/4, 3/4 | 1/2, 1/2, -; the largest is 1
    wanted = {(0, 0): 1.0, (1, 1): 0.5, (1, 2): 0.75**0.5, (2, 0): 0.5**0.5, (2, 1): 0.5**0.5}
    seen = cells(heatmap(COUNTS, NAMES, "Labels"))
    assert seen.keys() == wanted.keys()
    for cell, shade in wanted.items():
        assert seen[cell] == pytest.approx(shade, abs=0.5 / LEVELS + 1e-9)


def test_the_largest_share_gets_the_full_colour():
    seen = cells(heatmap([[1] * 4, [2, 2, 2, 2]], list("abcd"), "even"))
    assert set(seen.values()) == {1.0}
    assert len(seen) == 8


def test_neighbours_share_an_edge_to_the_last_digit():
    figure = heatmap([[1 + i % 3, 1] for i in range(70)], ["a", "b"], "many")
    ends = sorted(
        (float(a), float(b)) for a, b in re.findall(r"M(\S+) \S+H(\S+)V\S+H\S+z", figure.svg)
    )
    starts = {a for a, _ in ends}
    assert all(b in starts for _, b in ends if b < max(e for _, e in ends))


def test_names_and_title_are_escaped_and_the_figure_is_well_formed():
    figure = heatmap(COUNTS, NAMES, 'Labels "of" <b>')
    words = [t.text for t in tree(figure).iter("text")]
    assert {"cat", "<dog>", "a & b", "client", "label"} <= set(words)
    assert tree(figure).get("aria-label") == 'Labels "of" <b>'


def test_the_pointer_is_told_each_clients_numbers():
    titles = [t.text for t in tree(heatmap(COUNTS, NAMES, "Labels")).iter("title")]
    assert titles[0] == "client 0: 9 samples, 1 label; most: cat: 9"
    assert titles[1] == "client 1: 4 samples, 2 labels; most: a & b: 3, <dog>: 1"


def test_colours_come_from_the_page_so_that_dark_pages_are_readable():
    assert not re.search(r"#[0-9a-f]{3,6}|rgb\(", heatmap(COUNTS, NAMES, "Labels").svg)


def test_sizes_are_bars_only_where_they_differ():
    assert "every client has 3 samples" in heatmap([[1, 2], [3, 0]], ["a", "b"], "equal").svg
    assert "samples of each client" in heatmap(COUNTS, NAMES, "unequal").svg


def test_of_more_than_200_clients_the_first_200_are_drawn_and_the_caption_says_so():
    figure = heatmap([[1, 2]] * 201, ["a", "b"], "Labels")
    assert figure.title == "Labels (the first 200 of 201 clients)"
    assert len(list(tree(figure).iter("title"))) == 200
    assert heatmap([[1, 2]] * 200, ["a", "b"], "Labels").title == "Labels"


def test_the_numbers_of_all_clients_can_be_downloaded():
    lines = heatmap([[1, 2]] * 201, ["a", "=b"], "Labels").csv.splitlines()
    assert lines[0] == "client,a,'=b"
    assert lines[201] == "200,1,2"


def test_many_labels_do_not_write_over_each_other():
    labels = [f"class {i}" for i in range(300)]
    figure = tree(heatmap([[1] * 300], labels, "Labels"))
    places = [float(t.get("y")) for t in figure.iter("text") if (t.text or "").startswith("class ")]
    assert min(b - a for a, b in pairwise(places)) >= 12


def test_a_client_without_samples_is_an_empty_column():
    assert {client for client, _ in cells(heatmap([[1, 1], [0, 0]], ["a", "b"], "Labels"))} == {0}


def test_the_same_counts_give_the_same_text():
    assert heatmap(COUNTS, NAMES, "Labels") == heatmap(
        tuple(map(tuple, COUNTS)), tuple(NAMES), "Labels"
    )


@pytest.mark.parametrize(
    ("counts", "labels", "words"),
    [
        ([], ["a"], "0 clients"),
        ([[]], [], "0 labels"),
        ([[1], [1, 2]], ["a"], "client 1 has 2 counts"),
    ],
)
def test_counts_that_do_not_fit_are_named(counts, labels, words):
    with pytest.raises(InputError, match=words):
        heatmap(counts, labels, "Labels")


def test_the_png_is_drawn_where_matplotlib_is_installed(tmp_path):
    pytest.importorskip("matplotlib")
    path = save_png(COUNTS, NAMES, "Labels", tmp_path / "deep/er.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_there_is_no_png_and_no_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert save_png(COUNTS, NAMES, "Labels", tmp_path / "a.png") is None
    assert not list(tmp_path.iterdir())
