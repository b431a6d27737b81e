"""The tidy table, and the commands that write it."""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys

import homes
import numpy as np
import pytest

from fedstep.analysis.export import tidy, write_csv, write_parquet
from fedstep.analysis.results import load_results
from fedstep.cli import results as commands
from fedstep.core.errors import InputError


@pytest.fixture
def home(tmp_path):
    homes.make(tmp_path / "home")
    return tmp_path / "home"


def command(*words):
    parser = argparse.ArgumentParser()
    commands.register(parser.add_subparsers(required=True))
    options = parser.parse_args(list(map(str, words)))
    return options.run(options)


def test_csv_has_a_row_for_every_method_seed_and_round(home, tmp_path):
    results = load_results(home)
    with write_csv(results, tmp_path / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len({(r["label"], r["seed"], r["round"]) for r in rows}) == len(rows) == 3 * 5 * 20
    assert rows[0]["accuracy"] == ""  # round 1 is not evaluated
    for group in results.groups:
        mine = [r for r in rows if r["label"] == group.label]
        got = np.array([float(r["step_median"]) for r in mine]).reshape(5, 20)
        assert np.array_equal(got, [[row["steps"][2] for row in run.rows] for run in group.runs])
        cost = (
            np.array([(int(r["forwards"]) + 2 * int(r["backwards"])) / 3 for r in mine])
            .reshape(5, 20)
            .cumsum(1)
        )
        assert np.array([float(r["gradients_so_far"]) for r in mine]).reshape(
            5, 20
        ) == pytest.approx(cost)


def test_unfinished_runs_are_marked(home):
    (homes.folder_of(home, "FedSLS", 1) / "done.json").unlink()
    assert {(r["label"], r["seed"]) for r in tidy(load_results(home)) if not r["finished"]} == {
        ("FedSLS", 1)
    }


def test_parquet_holds_the_same_rows(home, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    results = load_results(home)
    table = parquet.read_table(write_parquet(results, tmp_path / "r.parquet"))
    assert table.to_pylist() == list(tidy(results))
    kinds = {
        name: str(table.schema.field(name).type)
        for name in ("label", "round", "accuracy", "finished")
    }
    assert kinds == {"label": "string", "round": "int64", "accuracy": "double", "finished": "bool"}


def test_parquet_without_pyarrow_names_the_extra(home, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'fedstep\[parquet\]'"):
        write_parquet(load_results(home), tmp_path / "r.parquet")


def test_export_says_what_it_wrote(home, tmp_path, capsys):
    command("export", home, "--csv", tmp_path / "r.csv")
    command("export", home, "--pack", tmp_path / "r.jsonl.gz")
    out = capsys.readouterr().out
    assert f"export: {tmp_path / 'r.csv'} (" in out
    assert f"export: {tmp_path / 'r.jsonl.gz'} (" in out


def test_compare_prints_tables_or_markdown(home, capsys):
    command("compare", home)
    assert "What it cost" in capsys.readouterr().out
    command("compare", home, "--markdown", "--target", "0.5", "--reference", "FedAvg")
    out = capsys.readouterr().out
    assert "| rounds to 50.00 % |" in out
    assert "difference to FedAvg" in out


def test_report_writes_the_page_and_nothing_else(home, capsys):
    before = {p.name for p in home.iterdir()}
    command("report", home)
    assert {p.name for p in home.iterdir()} - before == {"report.html"}
    assert f"report: {(home / 'report.html').resolve()}" in capsys.readouterr().out.replace(
        "\n", ""
    )


def test_report_goes_where_it_is_sent(home, tmp_path, capsys):
    command("report", home, "--out", tmp_path / "there" / "page.html")
    assert (tmp_path / "there" / "page.html").exists()
    assert not (home / "report.html").exists()


def test_help_does_not_import_torch():
    code = (
        "import argparse, sys\nfrom fedstep.cli import results\n"
        "p = argparse.ArgumentParser(); results.register(p.add_subparsers())\n"
        "try: p.parse_args(['report', '--help'])\nexcept SystemExit: pass\n"
        "assert not {'torch', 'numpy', 'matplotlib'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
