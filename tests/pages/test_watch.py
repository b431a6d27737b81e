"""`fedstep watch` in a real browser, and what it answers to everybody else."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from threading import Event, Thread

import homes
import pytest
import torch
from visits import PHONE, WIDE, served

import fedstep
from fedstep.cli import main
from fedstep.report.render import render
from fedstep.report.report import study_page
from fedstep.watch.folders import content_mark
from fedstep.watch.live import home_page
from fedstep.watch.progress_table import time_text
from fedstep.watch.server import WatchServer


def ask(server, path, host=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


@pytest.fixture
def study(tmp_path):
    home = tmp_path / "study"
    homes.make(home, rounds=8, seeds=(0, 1))
    (homes.folder_of(home, "FedSLS", 1) / "done.json").unlink()
    return home


def test_only_who_has_the_token_and_asks_this_machine_is_answered(study):
    with served(WatchServer(study)) as server:
        status, page, headers = ask(server, f"/{server.token}/")
        assert status == 200
        assert "In numbers" in page
        assert "script-src 'nonce-" in headers["Content-Security-Policy"]
        port = server.server_port
        for path in ("/", "/wrong/", f"/{server.token}", f"/{server.token[:-1]}/", "/favicon.ico"):
            assert ask(server, path)[0] == 404
        assert ask(server, f"/{server.token}/", host=f"evil.example:{port}")[0] == 404
        assert ask(server, f"/{server.token}/", host=f"localhost:{port}")[0] == 200
        assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["../", "at/../..", "at/%2e%2e/mark", "at/nothing/"])
def test_nothing_outside_of_the_folder_can_be_asked_for(study, path):
    with served(WatchServer(study)) as server:
        assert ask(server, f"/{server.token}/{path}")[0] == 404


def test_the_figures_are_those_of_the_report(study):
    from fedstep.analysis.compare import compare
    from fedstep.analysis.results import load_results

    results = load_results(study)
    report = study_page(results, compare(results))
    live = home_page(study)
    assert live.first == report.first
    assert live.sections[0].title == "Progress"
    assert live.sections[1:] == report.sections
    drawings = re.findall(r"<svg.*?</svg>", render(report), re.S)
    assert len(drawings) > 8
    shown = render(live, "watch.html", mark="m", nonce="n")
    assert [drawing for drawing in drawings if drawing not in shown] == []


def test_progress_tells_states_rounds_and_time_left(study):
    stopped = homes.folder_of(study, "FedSLS", 1)
    rows = (stopped / "rounds.jsonl").read_text().splitlines()[:6]
    (stopped / "rounds.jsonl").write_text("\n".join(rows) + "\n")
    seconds = [json.loads(row)["seconds"] for row in rows]
    table = home_page(study).sections[0].tables[0]
    cells = {row.cells[0].text: [cell.text for cell in row.cells[1:4]] for row in table.rows}
    assert cells["FedSLS, seed 0"] == ["finished", "8 of 8", "-"]
    left = 2 * sum(seconds) / len(seconds)
    assert cells["FedSLS, seed 1"] == ["stopped", "6 of 8", time_text(left)]
    (stopped / "owner.json").write_text(
        json.dumps({"host": os.uname().nodename, "pid": os.getpid(), "id": "x"})
    )
    table = home_page(study).sections[0].tables[0]
    states = {row.cells[0].text: row.cells[1].text for row in table.rows}
    assert states["FedSLS, seed 1"] == "running"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.4, "4 s"), (61, "1 min 1 s"), (7260, "2 h 1 min"), (200_000, "2 days 7 h")],
)
def test_times_are_said_in_two_units(seconds, text):
    assert time_text(seconds) == text


def test_the_mark_changes_with_a_row_and_with_nothing_else(study):
    before = content_mark(study)
    folder = homes.folder_of(study, "FedSLS", 1)
    (folder / "checkpoint-3.safetensors").write_text("not shown")
    assert content_mark(study) == before
    with (folder / "rounds.jsonl").open("a") as journal:
        journal.write("{}\n")
    assert content_mark(study) != before


def test_a_folder_that_is_none_is_one_line(tmp_path, capsys):
    assert main(["watch", str(tmp_path / "nothing")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_line(study, capsys):
    with WatchServer(study) as server:
        assert main(["watch", str(study), "--port", str(server.server_port)]) == 2
    assert "give another" in capsys.readouterr().err


def test_the_command_says_the_address_and_ends_quietly(study):
    call = [sys.executable, "-m", "fedstep", "watch", str(study)]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:(\d+)(/\S+/)", line)
        connection = http.client.HTTPConnection("127.0.0.1", int(address[1]))
        connection.request("GET", address[2])
        assert connection.getresponse().status == 200
        process.terminate()


def local_only(visit, server):
    hosts = {re.match(r"\w+:(?://[^/]*)?", url)[0] for url in visit.requests}
    assert hosts <= {f"http://127.0.0.1:{server.server_port}", "data:"}


def test_the_page_opens_and_asks_nobody_else(study, serve, visit):
    server = serve(WatchServer(study))
    seen = visit(server.address)
    assert seen.page.locator("h1").inner_text() == "A study"
    assert seen.page.locator("figure svg").first.is_visible()
    for _ in range(2):
        with seen.page.expect_request("**/mark"):
            pass
    local_only(seen, server)
    assert seen.overflow <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_page_fits_the_screen(study, serve, visit, viewport, scheme):
    server = serve(WatchServer(study))
    seen = visit(server.address, viewport, scheme)
    assert seen.overflow <= 0
    box = seen.page.locator("figure").first.bounding_box()
    # the first chart begins on the first screen
    assert box["y"] < viewport["height"] * 0.7
    assert box["width"] <= viewport["width"]


def test_a_series_that_was_hidden_stays_hidden_when_the_page_changes(study, serve, visit):
    journal = homes.folder_of(study, "FedSLS", 1) / "rounds.jsonl"
    rows = journal.read_text()
    journal.write_text("".join(line + "\n" for line in rows.splitlines()[:4]))
    server = serve(WatchServer(study))
    seen = visit(server.address)
    page = seen.page
    assert page.get_by_text("4 of 8").count() == 1
    page.locator("[data-series=FedSLS]").uncheck()
    page.locator("summary", has_text="Settings").click()
    line = page.locator("g.series[data-name=FedSLS]").first
    assert "hidden" in line.get_attribute("class")
    journal.write_text(rows)
    page.get_by_text("4 of 8").wait_for(state="detached")
    assert page.get_by_text("8 of 8").count() == 6
    assert "hidden" in line.get_attribute("class")
    assert not page.locator("[data-series=FedSLS]").is_checked()
    assert page.locator("details[open]").count() == 1


def test_a_real_run_is_followed_round_by_round(tmp_path, serve, visit):
    home = tmp_path / "mine"
    home.mkdir()
    go_on = Event()
    reached = Event()

    def pause(row):
        if row.round == 2:
            reached.set()
            go_on.wait(60)

    g = torch.Generator().manual_seed(0)
    x = torch.randn(120, 5, generator=g)
    y = (x[:, 0] > 0).long()
    clients = [(x[i], y[i]) for i in torch.arange(100).chunk(5)]

    def train():
        fedstep.fit(
            torch.nn.Linear(5, 2),
            clients,
            rounds=3,
            test=(x[100:], y[100:]),
            out=home,
            on_round=pause,
        )

    server = serve(WatchServer(home))
    seen = visit(server.address, PHONE)
    page = seen.page
    page.get_by_text("has finished its first round yet").wait_for()
    run = Thread(target=train)
    run.start()
    try:
        assert reached.wait(60)
        # the second row is written before or after the caller is told of it
        page.get_by_text(re.compile("[12] of 3")).wait_for()
        page.get_by_text("running", exact=True).wait_for()
    finally:
        go_on.set()
        run.join()
    page.get_by_text("3 of 3").wait_for()
    page.get_by_text("finished", exact=True).wait_for()
    assert page.locator("figure .narrow svg").first.is_visible()
    assert seen.overflow <= 0
    local_only(seen, server)


def test_a_folder_of_several_results_has_an_index(tmp_path, serve, visit):
    for name in ("one", "two"):
        homes.make(tmp_path / "all" / name, rounds=4, seeds=(0,))
    server = serve(WatchServer(tmp_path / "all"))
    seen = visit(server.address)
    seen.page.get_by_role("link", name="two").click()
    assert seen.page.locator("h1").inner_text() == "A study"
    assert seen.page.url.endswith("/at/two/")
    with seen.page.expect_request("**/at/two/mark"):
        pass


def test_a_label_cannot_run_a_script(tmp_path, serve, visit):
    label = "<img src=x onerror=document.title=1>"
    homes.make(tmp_path / "x", methods=((label, "fedsls()", {}, 0.8, 0.01, False),), rounds=4)
    server = serve(WatchServer(tmp_path / "x"))
    seen = visit(server.address)
    assert seen.page.locator("img").count() == 0
    assert seen.page.title() == "A study"


def test_the_page_says_when_the_command_has_ended(study, visit):
    server = WatchServer(study)
    with served(server):
        seen = visit(server.address)
    seen.page.get_by_text("fedstep watch has ended").wait_for()
    # the browser itself complains of the lost connection
    assert all("ERR_CONNECTION_REFUSED" in complaint for complaint in seen.complaints)
    seen.complaints.clear()
