"""Slips are answered with the word that was meant; tables fit 80 columns; JSON holds the numbers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import homes
import pytest

from fedstep.cli import main, parser
from fedstep.cli.catalog import catalog
from fedstep.core.errors import InputError
from fedstep.run.terminal import console


def refused(capsys, *words):
    """The line that a wrong call is answered with."""
    with pytest.raises(SystemExit) as end:
        main(list(words))
    assert end.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["comprae"], "fedstep: unknown command 'comprae': did you mean compare?"),
        (["--vesion"], "fedstep: unknown option '--vesion': did you mean --version?"),
        (["data", "lst"], "fedstep data: unknown command 'lst': did you mean list?"),
        (
            ["demo", "--ruonds", "3"],
            "fedstep demo: unknown option '--ruonds': did you mean --rounds?",
        ),
        (
            ["demo", "--ruonds=3"],
            "fedstep demo: unknown option '--ruonds': did you mean --rounds?",
        ),
        # HOME is missing too, but that is not the slip
        (
            ["compare", "--markdwon"],
            "fedstep compare: unknown option '--markdwon': did you mean --markdown?",
        ),
        (
            ["toy", "--mode", "litteral"],
            "fedstep toy: unknown value of --mode 'litteral': did you mean literal?",
        ),
        (["list", "extra"], "fedstep list: unexpected 'extra'"),
        (["compare"], "fedstep compare: the following arguments are required: HOME"),
    ],
)
def test_a_slip_is_one_line_with_what_was_meant(words, message, capsys):
    assert refused(capsys, *words).startswith(message + " (")


def test_options_may_still_be_shortened():
    assert parser().parse_args(["demo", "--round", "3"]).rounds == 3


def test_a_slip_with_an_escape_sequence_is_shown_not_sent(capsys):
    assert "\\x1b[31m" in refused(capsys, "\x1b[31mlist")


@pytest.mark.parametrize(
    ("method", "citation"),
    [
        ("fedavg", "McMahan et al., 2017"),
        ("fedams", "Wang, Lin and Chen, 2022"),
        ("fathom", "Kan, 2022"),
        ("fedlocalasync", "Chatterjee, Kungurtsev and Alistarh, 2024"),
        ("fedsls", "Painless Federated Learning: An Interplay of Line-search and Extrapolation"),
        ("fedsls_lean", "none; the first guess is a choice of this library"),
        ("authors.fedsls", "as the published program runs it"),
    ],
)
def test_citations_are_whole(method, citation):
    entries = {entry.name: entry for entry in catalog()}
    assert entries[method].citation == citation


def test_every_method_names_a_paper_with_its_year_or_says_why_not():
    for entry in catalog():
        known = re.search(r", (19|20)\d\d$", entry.citation)
        said = entry.citation.startswith(("none", "Painless", "the programs", "as the published"))
        assert known or said, (entry.name, entry.citation)


def words_of(value):
    """All words of a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [word for item in value for word in words_of(item)]
    return str(value).split() if isinstance(value, str) else []


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def shown(capsys, *words):
    assert main(list(words)) == 0
    text = capsys.readouterr().out
    lines = text.split("Data directory:")[0].splitlines()  # what follows is for searching
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert "…" not in text
    return text.split()


@pytest.mark.parametrize("words", [["list"], ["data", "list"], ["paper", "--quick"]])
def test_no_word_of_a_table_is_cut_at_80_columns(words, capsys, narrow):
    seen = set(shown(capsys, *words))
    main([*words, "--json"])
    records = json.loads(capsys.readouterr().out)
    if words == ["list"]:
        records = [[entry.name, entry.summary, entry.citation] for entry in catalog()]
    if words == ["data", "list"]:
        records = [[task["task"], task["what"], task["hub"]] for task in records["tasks"]]
    assert [word for word in words_of(records) if word not in seen] == []


WIDE = [
    ["list", "--slots"],
    ["explain", "fedpace"],
    ["explain", "fedcams"],
    ["leaderboard", "list"],
]


@pytest.mark.parametrize("words", WIDE)
def test_long_specs_and_prose_are_folded_at_80_columns(words, capsys, narrow):
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "…" not in text
    # formulas stay as they are written
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("    ")]
    assert [line for line in lines if len(line) > 80] == []


def test_no_number_of_a_comparison_is_cut_at_80_columns(tmp_path, capsys, narrow):
    homes.make(tmp_path)
    seen = shown(capsys, "compare", str(tmp_path))
    main(["compare", str(tmp_path), "--markdown"])
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    cells = [cell.strip() for line in table for cell in line.strip("|").split("|")]
    numbers = [cell for cell in cells if re.fullmatch(r"[-+]?\d[\d.,]*", cell)]
    assert len(numbers) > 20
    assert [number for number in numbers if number not in seen] == []


def test_the_comparison_as_json_has_the_numbers_of_the_table(tmp_path, capsys):
    homes.make(tmp_path)
    assert main(["compare", str(tmp_path), "--json"]) == 0
    comparison = json.loads(capsys.readouterr().out)
    assert [method["label"] for method in comparison["methods"]] == [m[0] for m in homes.SMALL]
    assert main(["compare", str(tmp_path), "--markdown"]) == 0
    table = capsys.readouterr().out
    for method in comparison["methods"]:
        assert f"{100 * method['score']['mean']:.2f}" in table


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["list"], {"name", "call", "summary", "paper", "special_case", "family"}),
        (["paper", "--quick"], {"study", "title", "runs", "rounds"}),
        (["data", "check", "synthetic"], {"task", "state", "text"}),
    ],
)
def test_lists_as_json_are_records(words, keys, capsys):
    assert main([*words, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert all(set(record) == keys for record in records)


def test_methods_as_json_have_their_slots(capsys):
    assert main(["list", "--slots", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fedavgm"] == {"server": "HeavyBall()"}
    assert main(["explain", "fedavgm(beta=0.5)", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["slots"]["server"].startswith("HeavyBall(")


def test_demo_and_partition_as_json_print_nothing_else(tmp_path, capsys):
    out = ["--out", str(tmp_path)]
    assert main(["demo", "--data", "synthetic", "--rounds", "1", "--json", *out]) == 0
    demo = json.loads(capsys.readouterr().out)
    assert (tmp_path / "report.html").samefile(demo["report"])
    assert main(["partition", "synthetic", "--rule", "Iid(clients=4)", "--json", *out]) == 0
    assert len(json.loads(capsys.readouterr().out)["counts"]) == 4


def test_no_color_is_heeded(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    coloured = re.compile(r"\x1b\[[\d;]*[34][0-7]m")
    console(highlight=True).print("3 rounds")
    assert coloured.search(capsys.readouterr().out)
    monkeypatch.setenv("NO_COLOR", "1")
    console(highlight=True).print("3 rounds")
    assert not coloured.search(capsys.readouterr().out)


def completions(script, *words):
    """What bash offers for the last of the words."""
    line = " ".join(words)
    ask = (
        f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}\n"
        'COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}\n'
        '_shtab_fedstep; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_options_and_names(capsys):
    pytest.importorskip("shtab")
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completions(script, "fedstep", "comp") == ["compare", "completion"]
    assert completions(script, "fedstep", "demo", "--ro") == ["--rounds"]
    assert "fedexpsls" in completions(script, "fedstep", "explain", "fedex")
    assert "femnist-logreg" in completions(script, "fedstep", "run", "fem")
    assert completions(script, "fedstep", "data", "check", "cifar") == ["cifar10", "cifar100"]


def test_zsh_gets_a_script_that_knows_the_commands(capsys):
    pytest.importorskip("shtab")
    assert main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in ("compare", "--rounds", "fedexpsls"))


def test_completion_without_its_extra_says_what_to_install(monkeypatch):
    from fedstep.cli.completion import script

    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(InputError, match=r"pip install 'fedstep\[completion\]'"):
        script("bash")


def test_help_of_every_command_can_be_printed(capsys):
    """A per cent sign in a help text would fail only when it is shown."""
    names = re.findall(r"^    (\w+)", parser().format_help(), re.M)
    assert "compare" in names
    for name in names:
        with pytest.raises(SystemExit) as end:
            main([name, "--help"])
        assert end.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: fedstep {name}")


def test_the_module_runs_from_anywhere(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "fedstep", "list", "--json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["name"] == "fedavg"
