"""`fedstep run --ray`: runs of a study and rounds of a run, with the files of one process."""

from __future__ import annotations

import json
import threading
import time

import pytest
import safetensors.torch
import torch
from clusters import two_nodes

from fedstep.cli import main
from fedstep.core.errors import InputError
from fedstep.execute.ray import Ray
from fedstep.study import cluster as study_cluster

HEAD = """
title = "A small study"
data = "synthetic"
model = "logistic(inputs=40, classes=10)"
partition = "Dirichlet(alpha=0.5, clients=12)"
rounds = {rounds}
per_round = 4
steps = 3
batch = 20
every = 3
seeds = [0]

[tuning]
rounds = 2
"""
TUNED = """
[[methods]]
label = "FedAvg"
spec = "fedavg(step={step})"
grid = { step = [0.01, 0.1] }
"""
SCAFFOLD = """
[[methods]]
label = "SCAFFOLD"
spec = "scaffold"
"""
SEARCHING = """
[[methods]]
label = "FedExpSLS"
spec = "fedexpsls"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with two_nodes(tmp_path_factory.mktemp("token")) as made:
        yield made


@pytest.fixture
def rounds_on_ray(monkeypatch):
    """The number of rounds whose clients were given to a cluster."""
    calls = []
    inherited = Ray.__call__

    def counted(self, *arguments, **options):
        calls.append(self.cut)
        return inherited(self, *arguments, **options)

    monkeypatch.setattr(Ray, "__call__", counted)
    return calls


def run(folder, name, study, *more):
    path = folder / "study.toml"
    path.write_text(study)
    home = folder / name
    assert main(["run", str(path), "--out", str(home), *more]) == 0
    return home


def results(home):
    """Rows without their seconds, and models, by run."""
    found = {}
    for folder in sorted((home / "runs").iterdir()):
        rows = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
        for row in rows:
            del row["seconds"], row["checksum"]  # the latter is over the former too
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        found[folder.name] = (rows, tensors)
    return found


def assert_same(one, other):
    ours = results(one)
    theirs = results(other)
    assert ours.keys() == theirs.keys()
    for name, (rows, tensors) in ours.items():
        assert rows == theirs[name][0]
        for key, value in tensors.items():
            assert torch.equal(value, theirs[name][1][key])


def test_the_runs_of_a_study_are_tasks_with_the_files_of_one_process(
    cluster, tmp_path, rounds_on_ray
):
    study = HEAD.format(rounds=3) + TUNED + SCAFFOLD
    alone = run(tmp_path, "alone", study)
    there = run(tmp_path, "there", study, "--ray", cluster.address)
    assert len(results(alone)) == 4  # two of the grid, and one of each method
    assert_same(there, alone)
    assert (there / "tuning.json").read_bytes() == (alone / "tuning.json").read_bytes()
    assert not rounds_on_ray  # of this process: the runs were elsewhere
    assert not list(there.glob("shared-*"))


@pytest.mark.parametrize("method", [SCAFFOLD, SEARCHING])
def test_the_rounds_of_a_single_run_are_on_the_cluster(cluster, tmp_path, rounds_on_ray, method):
    study = HEAD.format(rounds=3) + method
    alone = run(tmp_path, "alone", study)
    there = run(tmp_path, "there", study, "--ray", cluster.address)
    assert_same(there, alone)
    assert len(rounds_on_ray) == 3


def test_a_results_folder_that_nodes_do_not_see_is_refused(cluster, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("fedstep.study.cluster._reads", lambda path, text: False)
    path = tmp_path / "study.toml"
    path.write_text(HEAD.format(rounds=2) + SCAFFOLD + SEARCHING)
    command = ["run", str(path), "--out", str(tmp_path / "there"), "--ray", cluster.address]
    assert main(command) == 2
    assert (
        "the cluster's nodes do not see it; give --out a shared folder" in capsys.readouterr().err
    )


def test_a_node_killed_in_the_middle_of_a_study_changes_no_file(tmp_path):
    study = HEAD.format(rounds=60) + SCAFFOLD + SEARCHING
    alone = run(tmp_path, "alone", study)
    (tmp_path / "token").mkdir()
    with two_nodes(tmp_path / "token") as cluster:
        killer = threading.Thread(target=_kill_in_the_middle, args=(cluster, tmp_path / "there"))
        killer.start()
        there = run(tmp_path, "there", study, "--ray", cluster.address)
        killer.join(60)
        assert not killer.is_alive()
        assert len(cluster.worker_nodes) == 0
    assert_same(there, alone)


def _kill_in_the_middle(cluster, home):
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if sum(path.stat().st_size > 0 for path in home.glob("runs/*/rounds.jsonl")) == 2:
            break
        time.sleep(0.02)
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)


def test_workers_and_ray_together_are_one_line(tmp_path, capsys):
    path = tmp_path / "study.toml"
    path.write_text(HEAD.format(rounds=2) + SCAFFOLD)
    home = str(tmp_path / "there")
    assert main(["run", str(path), "--out", home, "--workers", "2", "--ray"]) == 2
    assert "leave --workers out" in capsys.readouterr().err


def test_a_cluster_that_has_lost_its_cpus_is_not_waited_for_without_end(monkeypatch, tmp_path):
    class Empty:
        """Ray, after the last node with a CPU has gone."""

        def wait(self, references, num_returns, timeout):
            return [], references

        def cluster_resources(self):
            return {"memory": 1.0}

    monkeypatch.setattr(study_cluster, "ray", Empty())
    monkeypatch.setattr(study_cluster, "START", 0.0)
    with pytest.raises(InputError, match="the cluster had 0 CPUs, and a run asks for 1"):
        study_cluster._await_runs({"a run": None}, tmp_path, None, 1.0)
