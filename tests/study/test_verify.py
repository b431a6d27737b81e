"""`fedstep verify`: recorded runs made again."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from fedstep.analysis.verify import recorded_runs, verify_run
from fedstep.cli import main
from fedstep.run.packed import PACKED, pack_runs, unpack

STUDY = """
data = "synthetic"
model = "logistic(inputs=40, classes=10)"
partition = "Dirichlet(alpha=0.5, clients=12)"
rounds = 6
per_round = 3
steps = 2
batch = 20
every = 2
seeds = [0, 1, 2]

[[methods]]
label = "FedPace"
spec = "fedpace"

[[methods]]
label = "SCAFFOLD"
spec = "scaffold(step=0.1)"

[[methods]]
label = "PAdaMFed"
spec = "padamfed(rounds=6, cohort=3, local_steps=2)"
"""


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    """As it stands in a repository: rows in one file, no models."""
    folder = tmp_path_factory.mktemp("study")
    study = folder / "mine.toml"
    study.write_text(STUDY)
    home = folder / "home"
    assert main(["run", str(study), "--out", str(home)]) == 0
    assert main(["export", str(home), "--pack", str(home / PACKED)]) == 0
    shutil.rmtree(home / "runs")
    return home


@pytest.fixture
def home(committed, tmp_path):
    return shutil.copytree(committed, tmp_path / "home")


def change(home, label, rows=None, spec=None, seeds=(0, 1, 2)):
    """Edit what was recorded of a method."""
    runs = unpack(home / PACKED)
    for found in recorded_runs(home, [label])[0].siblings:
        if found.job.seed in seeds:
            stored = runs[found.job.digest]
            stored.spec.update(spec or {})
            for row in stored.rows:
                row.update(rows(row) if rows else {})
    pack_runs(runs, home / PACKED)


@pytest.mark.parametrize("rounds", [[], ["--rounds", "3"]])
def test_all_methods_have_the_recorded_numbers_again(home, rounds, capsys):
    before = (home / PACKED).read_bytes()
    assert main(["verify", str(home), *rounds]) == 0
    lines = capsys.readouterr().out.splitlines()
    last = rounds[1] if rounds else "6"
    assert lines == [
        f"agrees: {label}, seed 0: the same numbers in rounds 1 to {last}"
        for label in ("FedPace", "SCAFFOLD", "PAdaMFed")
    ]
    # nothing is written beside the results
    assert (home / PACKED).read_bytes() == before
    assert not (home / "runs").exists()


def test_a_run_with_workers_agrees_too(home, capsys):
    assert main(["verify", str(home), "--only", "SCAFFOLD", "--seed", "2", "--workers", "2"]) == 0
    assert "SCAFFOLD, seed 2: the same numbers" in capsys.readouterr().out


def test_a_changed_number_is_named_with_its_round(home, capsys):
    change(home, "FedPace", lambda row: {"loss": row["loss"] + (row["round"] == 3)})
    assert main(["verify", str(home), "--only", "FedPace"]) == 1
    line = capsys.readouterr().out
    assert line.startswith("DOES NOT AGREE: FedPace, seed 0: round 3 has loss ")
    assert "on the same kind of CPU" in line
    # rounds before it are as they were
    assert main(["verify", str(home), "--only", "FedPace", "--rounds", "2"]) == 0


def test_a_recorded_gap_does_not_agree_with_a_number(home, capsys):
    # as a loss that was no number stands in a file
    change(home, "FedPace", lambda row: {"loss": None} if row["round"] == 3 else {})
    assert main(["verify", str(home), "--only", "FedPace"]) == 1
    assert "recorded None" in capsys.readouterr().out


def test_other_data_or_another_algorithm_are_named(home, capsys):
    def otherwise(row):
        return {"loss": row["loss"] + 1}

    change(home, "FedPace", otherwise, {"algorithm": "Algorithm()", "data": "0" * 16})
    assert main(["verify", str(home), "--only", "FedPace", "--rounds", "1"]) == 1
    line = capsys.readouterr().out
    assert "FedPace, seed 0: round 1 has loss" in line
    assert "it is no longer the same run: algorithm, data differ" in line


def test_an_algorithm_that_an_older_version_describes_otherwise_agrees_by_its_numbers(home):
    change(home, "FedPace", spec={"algorithm": "Algorithm(of other words)"})
    assert verify_run(recorded_runs(home, ["FedPace"])[0], None).agrees


def test_a_run_of_before_there_was_a_guard_is_made_again_without_one(home):
    # the study of such results does not say that it has none, and now the default is one
    runs = {}
    for run in recorded_runs(home):
        for each in run.siblings:
            unguarded = replace(each.job, setting=replace(each.job.setting, guard=False))
            spec = {**each.stored.spec, "digest": unguarded.digest}
            runs[unguarded.digest] = replace(each.stored, spec=spec)
    pack_runs(runs, home / PACKED)
    (found,) = recorded_runs(home, ["FedPace"])
    assert not found.run.job.setting.guard
    assert found.run.job.digest == found.run.stored.spec["digest"]


@pytest.mark.parametrize(
    ("shift", "agrees"),
    [(0.005, True), (0.5, False)],
)
def test_on_another_kind_of_cpu_the_score_may_differ_as_the_seeds_do(home, shift, agrees, capsys):
    def elsewhere(row):
        if row["accuracy"] is None:
            return {"loss": row["loss"] * 1.001}
        return {"loss": row["loss"] * 1.001, "accuracy": row["accuracy"] + shift}

    change(home, "FedPace", elsewhere, {"cpu": "aarch64 NEON"})
    verdict = verify_run(recorded_runs(home, ["FedPace"])[0], None)
    assert verdict.agrees is agrees
    assert "FedPace, seed 0, round 6: accuracy" in verdict.text
    assert "recorded on aarch64 NEON" in verdict.text


def test_on_another_kind_of_cpu_a_round_without_an_evaluation_says_nothing(home):
    change(home, "FedPace", lambda row: {"loss": row["loss"] * 1.001}, {"cpu": "aarch64 NEON"})
    verdict = verify_run(recorded_runs(home, ["FedPace"])[0], None, rounds=1)
    assert not verdict.agrees
    assert "give --rounds 2 or more" in verdict.text


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--only", "FedPac"], "did you mean FedPace?"),
        (["--only", "FedPace", "--seed", "7"], "no finished run with seed 7; there are 0, 1, 2"),
        (["--only", "FedPace", "--rounds", "7"], "--rounds 7: the runs have 6; give 1 to 6"),
        (["--only", "FedPace", "--rounds", "0"], "--rounds 0: the runs have 6; give 1 to 6"),
    ],
)
def test_what_is_not_there_is_one_line(home, words, line, capsys):
    assert main(["verify", str(home), *words]) == 2
    assert line in capsys.readouterr().err
