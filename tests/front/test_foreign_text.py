"""Labels, paths and specs are written by others: a terminal shows them as they are."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table

import fedstep
from fedstep.cli import main
from fedstep.run.progress import progress_bar
from fedstep.run.terminal import PlainConsole, console, printable

LABELS = ("Ours [/b]", "FedSLS [c=0.5]", "[red]loud[/red]", "on :fire:", "{task.total}")
STUDY = """
title = "A study [/i]"
data = "synthetic"
model = "logistic(inputs=40, classes=10)"
partition = "Iid(clients=4)"
rounds = 1
per_round = 2
steps = 1
batch = 20
seeds = [0]
"""
METHOD = """
[[methods]]
label = "{label}"
spec = "fedavg(step={step})"
"""


@pytest.fixture
def study(tmp_path):
    text = STUDY
    for number, label in enumerate(LABELS):
        text += METHOD.format(label=label, step=0.1 * (number + 1))
    path = tmp_path / "names [b].toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("terminal", [False, True], ids=["plain", "terminal"])
def test_labels_that_look_like_markup_run_and_are_shown_whole(
    study, tmp_path, monkeypatch, capsys, terminal
):
    monkeypatch.setenv("COLUMNS", "200")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes what it writes to for a terminal
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
    home = tmp_path / "out [/b]"
    assert main(["run", str(study), "--out", str(home), "--profile"]) == 0
    printed = capsys.readouterr()
    assert f"results: {home} " in printed.out
    for label in LABELS:
        assert label in printed.out  # in the head of the profile
        if not terminal:
            assert f"{label}, seed 0: finished" in printed.err
    assert main(["compare", str(home)]) == 0
    table = capsys.readouterr().out
    assert all(label in table for label in LABELS)


def test_tuning_shows_labels_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "tuned.toml"
    method = METHOD.format(label="Ours [/b]", step="{step}") + "grid = { step = [0.1, 0.2] }\n"
    path.write_text(f"{STUDY}[tuning]\nrounds = 1\n{method}")
    assert main(["tune", str(path), "--out", str(tmp_path / "out")]) == 0
    assert "Ours [/b]" in capsys.readouterr().out


def test_markdown_sends_no_escape_sequence_to_a_terminal(tmp_path, capsys):
    path = tmp_path / "study.toml"
    method = METHOD.format(label="\\u001b[31mred", step=0.1)
    path.write_text(STUDY + method + 'published = { "\\u001b]0;title\\u0007" = [0.5, 0.1] }\n')
    assert main(["run", str(path), "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "out"), "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert "\\x1b[31mred" in printed
    assert "\x1b" not in printed
    assert "\x07" not in printed


def test_an_error_names_what_was_given_as_it_was_given(capsys):
    assert main(["run", "Ours [/b]\x1b[31m"]) == 2
    error = capsys.readouterr().err
    assert "Ours [/b]\\x1b[31m" in error
    assert "\x1b" not in error


def shown(item) -> str:
    file = io.StringIO()
    plain = PlainConsole(file=file, markup=False, emoji=False, width=100)
    plain.print(item)
    return file.getvalue().rstrip()


@pytest.mark.parametrize("label", [*LABELS, "a\tb", "Grüße", "日本"])
def test_text_is_printed_as_it_is(label):
    assert shown(label).split() == label.split()
    table = Table(label, box=None)
    table.add_row(label)
    assert shown(table).count(label.split()[0]) == 2


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\rb", "a\\rb"),
        ("\x9b1m", "\\x9b1m"),
        ("left\u202eright", "left\\u202eright"),
        ("two\nlines\tof text", "two\nlines\tof text"),
    ],
)
def test_control_characters_are_written_out(text, safe):
    assert printable(text) == safe
    assert "\x1b" not in shown(text)


@pytest.mark.parametrize("label", LABELS)
def test_a_progress_bar_shows_a_label_as_it_is(label):
    file = io.StringIO()
    plain = PlainConsole(file=file, markup=False, emoji=False, width=120, force_terminal=True)
    with progress_bar(plain, width=10) as bar:
        bar.add_task(printable(label), total=3, summary="loss [b]")
    assert label in file.getvalue()
    assert "loss [b]" in file.getvalue()


def test_every_command_writes_through_the_console_that_shows_text_as_it_is():
    assert isinstance(console(), PlainConsole)
    source = Path(fedstep.__file__).parent
    others = [p for p in source.rglob("*.py") if p != source / "run" / "terminal.py"]
    assert [p.name for p in others if re.search(r"\bConsole\(", p.read_text())] == []


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "fedstep", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fedstep ")
