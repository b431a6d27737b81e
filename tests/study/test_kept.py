"""A study goes on from what is committed: runs of the compact file count as done."""

from __future__ import annotations

import json
import shutil

import pytest

from fedstep.cli import main
from fedstep.study.kept import KeptRuns, folder_of
from fedstep.study.study_file import read_study
from fedstep.study.work import work

STUDY = """
data = "synthetic"
model = "logistic(inputs=40, classes=10)"
partition = "Dirichlet(alpha=0.5, clients=12)"
rounds = 4
per_round = 3
steps = 2
batch = 20
every = 2
seeds = [0, 1]

[tuning]
rounds = 2
clients = 4

[[methods]]
label = "FedAvg"
spec = "fedavg(step={step})"
grid = { step = [0.01, 0.1, 1.0] }

[[methods]]
label = "FedExP"
spec = "fedexp(step={step})"
grid = { step = [0.01, 0.1] }

[[methods]]
label = "FedSLS"
spec = "fedsls"
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(STUDY)
    return path


def run(study, home, *words):
    assert main([*words[:1], str(study), "--out", str(home), *words[1:]]) == 0


def pack(home):
    """What a clone of the repository has: the compact file, and no folder of a run."""
    assert main(["export", str(home), "--pack", str(home / "results.jsonl.gz")]) == 0
    shutil.rmtree(home / "runs")


def folders(home):
    return sorted(path.name for path in (home / "runs").glob("*"))


def choices(home):
    return {row["label"]: row for row in json.loads((home / "tuning.json").read_text())}


def test_what_is_packed_is_not_run_again_and_gives_the_same_choices(study, tmp_path, capsys):
    home = tmp_path / "home"
    run(study, home, "run")
    before = choices(home)
    pack(home)
    run(study, home, "run")
    assert folders(home) == []
    after = choices(home)
    assert list(after) == list(before)
    for label, row in before.items():
        assert after[label]["spec"] == row["spec"]
        assert after[label]["scores"] == pytest.approx(row["scores"], rel=1e-5)
    capsys.readouterr()  # what the commands said until here
    assert main(["compare", str(home), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert [method["seeds"] for method in compared["methods"]] == [2, 2, 2]


def test_of_a_grid_that_is_tuned_in_part_the_other_points_are_run(study, tmp_path):
    home = tmp_path / "home"
    run(study, home, "tune", "--only", "FedSLS")
    plan = read_study(study)
    trials = plan.trials(plan.methods[0])
    for job in trials[:2]:
        work(job, home, None)
    # a run that is not finished is not packed
    pack(home)
    run(study, home, "tune", "--only", "FedAvg")
    assert folders(home) == [trials[2].digest]
    assert len(choices(home)["FedAvg"]["scores"]) == 3


def test_only_the_methods_that_are_named_are_tuned_and_run(study, tmp_path):
    home = tmp_path / "home"
    run(study, home, "run", "--only", "FedSLS")
    assert len(folders(home)) == 2
    assert list(choices(home)) == ["FedSLS"]
    run(study, home, "run", "--only", "FedAvg")
    assert len(folders(home)) == 2 + 3 + 2
    # in the order of the file, and what was known before is known still
    assert list(choices(home)) == ["FedAvg", "FedSLS"]


def test_of_a_method_whose_grid_has_changed_nothing_is_chosen(study, tmp_path):
    home = tmp_path / "home"
    run(study, home, "tune", "--only", "FedAvg", "--only", "FedExP")
    study.write_text(STUDY.replace("[0.01, 0.1]", "[0.01, 0.1, 1.0]"))
    run(study, home, "tune", "--only", "FedSLS")
    assert list(choices(home)) == ["FedAvg", "FedSLS"]


def test_a_method_that_is_not_in_the_study_is_named_before_anything_is_written(
    study, tmp_path, capsys
):
    home = tmp_path / "home"
    assert main(["run", str(study), "--out", str(home), "--only", "FedSLs"]) != 0
    assert "did you mean FedSLS" in capsys.readouterr().err.replace("\n", " ")
    assert not home.exists()


def test_a_run_that_is_under_way_does_not_hide_the_finished_one_of_the_file(study, tmp_path):
    home = tmp_path / "home"
    run(study, home, "run", "--only", "FedSLS")
    job = read_study(study).only(["FedSLS"]).runs({"FedSLS": "fedsls"})[0]
    folder = folder_of(job, home)
    rows = (folder / "rounds.jsonl").read_text().splitlines(keepends=True)
    pack(home)
    folder.mkdir(parents=True)
    (folder / "rounds.jsonl").write_text(rows[0])
    stored = KeptRuns.of(home).read(job)
    assert stored.done
    assert len(stored.rows) == 4
