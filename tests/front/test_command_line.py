"""The command line as a user meets it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from fedstep.cli import main


def fedstep(*words, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "fedstep.cli", *words], capture_output=True, text=True, cwd=cwd
    )


@pytest.mark.parametrize("words", [["--help"], ["list"], ["toy", "--help"], ["explain", "nothing"]])
def test_light_commands_do_not_import_torch(words):
    call = f"import sys, fedstep.cli\ntry: fedstep.cli.main({words!r})\nexcept SystemExit: pass\n"
    code = call + "assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_list_names_every_method(capsys):
    from fedstep.spec import methods

    assert main(["list"]) == 0
    words = capsys.readouterr().out.split()
    assert set(methods()) <= set(words)


def test_explain_shows_formula_slots_and_paper(capsys):
    assert main(["explain", "fedexpsls(c=0.3)"]) == 0
    text = capsys.readouterr().out
    for word in (
        "eta_g = max(1,",
        "Paper: Painless",
        "Armijo(c=0.3)",
        "Extrapolate(eps=0.001",
        "readout",
        "LastTwo",
    ):
        assert word in text


def test_explain_of_a_misspelt_name_suggests_the_right_one(capsys):
    assert main(["explain", "fedexpsl"]) == 2
    error = capsys.readouterr().err
    assert error.strip() == "fedstep: unknown method 'fedexpsl': did you mean fedexpsls?"


def test_demo_writes_a_report_and_says_where(tmp_path):
    done = fedstep("demo", "--data", "synthetic", "--rounds", "2", "--out", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = tmp_path / "here/report.html"
    assert f"report: {report.resolve()}" in done.stdout
    page = report.read_text()
    assert "fedavg(step=0.01)" in page
    assert "fedstep demo --data synthetic --rounds 2 --seed 0" in page
    # costs are counted to the same target on the terminal and on the page
    target = float(re.search(r"to reach accuracy ([0-9.]+)", done.stdout)[1])
    on_page = float(re.search(r"rounds to ([0-9.]+)", page)[1])
    assert on_page == pytest.approx(100 * target, abs=0.06)  # three digits are printed


def test_demo_is_reproducible(tmp_path):
    for name in ("a", "b"):
        assert (
            fedstep(
                "demo", "--data", "synthetic", "--rounds", "1", "--out", name, cwd=tmp_path
            ).returncode
            == 0
        )
    assert (tmp_path / "a/report.html").read_text() == (tmp_path / "b/report.html").read_text()


def test_toy_draws_the_figure(tmp_path):
    pytest.importorskip("matplotlib")
    done = fedstep("toy", "--rounds", "3", "--mode", "literal", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "toy-literal.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "toy-literal.svg").read_text()
    assert not (tmp_path / "toy-authors.png").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demo", "--rounds", "0"], "fedstep: --rounds 0: give at least 1"),
        (["demo", "--data", "nothing"], "fedstep: --data nothing: choose digits or synthetic"),
        (["toy", "--rounds", "-1"], "fedstep: --rounds -1: give at least 1"),
    ],
)
def test_bad_input_is_one_line_and_a_code(words, message):
    done = fedstep(*words)
    assert done.returncode == 2
    assert done.stderr.strip() == message


def test_an_out_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "afile").write_text("")
    done = fedstep("demo", "--data", "synthetic", "--rounds", "1", "--out", str(tmp_path / "afile"))
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "afile" in done.stderr
