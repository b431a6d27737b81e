"""The page of the leaderboard in a real browser."""

from __future__ import annotations

import re
from dataclasses import replace

import boards
import pytest
from visits import PHONE, WIDE

from fedstep.cli import main
from fedstep.leaderboard.page import board_page
from fedstep.leaderboard.read import read_board
from fedstep.leaderboard.standings import roundups
from fedstep.report.render import render

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


@pytest.fixture
def page(tmp_path):
    """A page of three entries on one track, one of them with foreign text everywhere."""
    evil = replace(boards.SEARCH, name="evil", title=EVIL, who=EVIL, licence=EVIL, text=EVIL)
    boards.write(
        tmp_path,
        boards.outcome(boards.AVG, 0.9),
        boards.outcome(boards.SEARCH, 0.85),
        boards.outcome(evil, 0.3),
    )
    path = tmp_path / "index.html"
    assert main(["leaderboard", "page", "--home", str(tmp_path)]) == 0
    return path


def first_column(visit, table):
    cells = visit.page.locator(f"{table} tbody tr td:nth-child(2)")
    return cells.all_text_contents()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_page_fits_and_asks_nobody(visit, page, viewport, scheme):
    opened = visit(page.as_uri(), viewport, scheme)
    assert opened.overflow == 0
    assert opened.requests == [page.as_uri()]
    # foreign text is text
    assert opened.page.locator("img").count() == 0
    assert opened.page.locator("#hills").get_by_text("<script>alert(1)").count() > 0


def test_a_click_on_a_head_sorts_and_another_one_turns_it_round(visit, page):
    opened = visit(page.as_uri())
    table = "#hills table.sortable"
    # Search needs no tuning, so it is first; the third never arrives
    assert first_column(opened, table) == ["Search", "Average", EVIL]
    final = opened.page.locator(table).get_by_role("button", name="final accuracy")
    final.click()
    assert first_column(opened, table) == ["Average", "Search", EVIL]
    final.click()
    assert first_column(opened, table) == [EVIL, "Search", "Average"]
    assert opened.page.locator(f"{table} th[aria-sort=descending]").count() == 1
    opened.page.locator(table).get_by_role("button", name="of it tuning").click()
    assert first_column(opened, table)[-1] == "Average"
    # what was never reached is behind every number
    opened.page.locator(table).get_by_role("button", name="rounds to").click()
    assert first_column(opened, table)[-1] == EVIL


def test_every_number_leads_to_the_command_and_the_hash_that_made_it(visit, page):
    opened = visit(page.as_uri())
    board = read_board(page.parent)
    hills = next(shown for shown in board.tracks if shown.track.name == "hills")
    row = opened.page.locator("#hills table.sortable tbody tr").first
    links = row.locator("a")
    # all but name, place and who
    assert links.count() == 7
    target = opened.page.locator("[id='hills/search']")
    assert not target.is_visible()
    links.first.click()
    assert target.is_visible()
    told = target.locator("xpath=following-sibling::div[1]").inner_text()
    assert "fedstep leaderboard run hills search" in told
    assert hills.standings[0].outcome.digest in told
    for seed in hills.standings[0].outcome.match.seeds:
        assert str(seed) in told
    # every link of the page has a place to lead to
    html = page.read_text()
    names = set(re.findall(r'id="([^"]*)"', html))
    assert set(re.findall(r'href="#([^"]*)"', html)) <= names


def test_lines_can_be_hidden_and_there_is_a_dot_for_every_entry(visit, page):
    opened = visit(page.as_uri())
    assert opened.page.locator("#hills figure").count() == 2
    assert opened.page.locator("#hills figure:nth-child(2) g.series").count() == 3
    line = opened.page.locator("#hills figure:nth-child(1) g.series[data-name=avg]")
    assert line.is_visible()
    opened.page.get_by_label("avg").uncheck()
    assert not line.is_visible()


def test_of_many_lines_all_or_none_are_shown_at_a_click(visit, tmp_path):
    for number in range(9):
        boards.write(tmp_path, boards.outcome(replace(boards.SEARCH, name=f"m{number}"), 0.9))
    assert main(["leaderboard", "page", "--home", str(tmp_path)]) == 0
    opened = visit((tmp_path / "index.html").as_uri())
    chart = opened.page.locator("#hills figure:nth-child(1)")
    # nine entries and the target
    assert chart.locator("g.series").count() == 10
    opened.page.get_by_role("button", name="none").click()
    assert chart.locator("g.series.hidden").count() == 10
    assert not opened.page.get_by_label("m3").is_checked()
    opened.page.get_by_label("m3").check()
    assert chart.locator("g.series.hidden").count() == 9
    opened.page.get_by_role("button", name="all").click()
    assert chart.locator("g.series.hidden").count() == 0


def test_of_very_many_lines_those_of_the_best_places_are_shown_first(visit, tmp_path):
    for number in range(12):
        # the higher the number, the later it arrives
        entry = replace(boards.SEARCH, name=f"m{number:02}", title=f"m{number:02}")
        boards.write(tmp_path, boards.outcome(entry, 0.9 - 0.04 * number))
    assert main(["leaderboard", "page", "--home", str(tmp_path)]) == 0
    opened = visit((tmp_path / "index.html").as_uri())
    (roundup,) = roundups(read_board(tmp_path))
    standings = roundup.rows
    last = {row.name for row in standings[-2:]}
    chart = opened.page.locator("#hills figure:nth-child(1)")
    hidden = chart.locator("g.series.hidden").evaluate_all("all => all.map(g => g.dataset.name)")
    assert set(hidden) == last
    assert not opened.page.get_by_label(standings[-1].name).is_checked()
    opened.page.get_by_label(standings[-1].name).check()
    assert chart.locator("g.series.hidden").count() == 1


def test_large_tracks_have_a_table_of_their_own_and_lines_at_once(visit, tmp_path):
    for number in range(12):
        entry = replace(boards.SEARCH, name=f"m{number:02}", title=f"m{number:02}")
        boards.write(tmp_path, boards.outcome(entry, 0.9 - 0.04 * number))
    # the last of the small track is the only one of the large
    long = replace(boards.TRACK, name="mountains", size="large")
    boards.write(tmp_path, boards.outcome(entry, 0.9, long))
    assert main(["leaderboard", "page", "--home", str(tmp_path)]) == 0
    opened = visit((tmp_path / "index.html").as_uri())
    assert len(first_column(opened, "#all-small table")) == 12
    assert first_column(opened, "#all-large table") == [entry.name]
    chart = opened.page.locator("#mountains figure:nth-child(1)")
    assert chart.locator("g.series.hidden").count() == 0


def test_a_page_without_results_says_how_to_make_one(visit, tmp_path):
    path = tmp_path / "index.html"
    path.write_text(render(board_page(read_board(tmp_path))))
    opened = visit(path.as_uri())
    assert "fedstep leaderboard run TRACK ENTRY" in opened.page.inner_text("main")
    assert opened.overflow == 0


def test_results_that_were_left_out_are_named_on_the_page(tmp_path):
    boards.write(tmp_path, boards.outcome(boards.AVG, 0.9))
    (tmp_path / "hills" / "torn.json").write_text("{")
    text = render(board_page(read_board(tmp_path)))
    assert "torn.json" in text
