"""`fedstep clients`: how each client of a study's finished runs fares."""

from __future__ import annotations

import json
import shutil

import pytest
import safetensors.torch
import torch

from fedstep.analysis.client_spread import CLIENTS, read_client_scores
from fedstep.cli import main
from fedstep.data.partition import partitioner
from fedstep.data.tasks import load
from fedstep.run.files import write_sealed
from fedstep.study.kept import folder_of
from fedstep.study.study_file import read_study

STUDY = """
data = "synthetic"
model = "logistic(inputs=40, classes=10)"
partition = "Dirichlet(alpha=0.5, clients=12)"
rounds = 3
per_round = 3
steps = 2
batch = 20
seeds = [0, 1]

[[methods]]
label = "FedSLS"
spec = "fedsls"

[[methods]]
label = "FedAvg"
spec = "fedavg(step=0.1)"
"""


@pytest.fixture
def home(tmp_path):
    study = tmp_path / "mine.toml"
    study.write_text(STUDY)
    home = tmp_path / "home"
    assert main(["run", str(study), "--out", str(home)]) == 0
    return home


def measured(home, capsys):
    capsys.readouterr()
    assert main(["clients", str(home), "--json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def jobs_of(home):
    return read_study(home / "study.toml").runs({"FedSLS": "fedsls", "FedAvg": "fedavg(step=0.1)"})


def accuracies(job, home):
    """By hand: the weights as a matrix and a vector, the samples of one client after the other."""
    split = load("synthetic", partitioner(job.setting.partition), None, job.seed)
    x = safetensors.torch.load_file(folder_of(job, home) / "model.safetensors")["readout"]
    weights = x[:400].reshape(10, 40)
    bias = x[400:]
    inputs, targets = split.federation.fields
    right = []
    for part in split.federation.parts:
        labels = (inputs[part] @ weights.T + bias).argmax(1)
        right.append((labels == targets[part]).double().mean())
    return torch.stack(right).sort().values


def test_the_worst_tenth_is_that_of_the_kept_model(home, capsys):
    found, _ = measured(home, capsys)
    scores = read_client_scores(home)
    assert [method["label"] for method in found["methods"]] == ["FedSLS", "FedAvg"]
    assert found["metric"]["name"] == "accuracy"
    by_hand = {job.digest: accuracies(job, home) for job in jobs_of(home)}
    assert set(scores) == set(by_hand)
    for digest, values in by_hand.items():
        score = scores[digest]
        assert score["clients"] == 12
        assert score["mean_accuracy"] == pytest.approx(float(values.mean()))
        # a tenth of twelve, rounded up
        assert score["worst_accuracy"] == pytest.approx(float(values[:2].mean()))
        assert score["spread_accuracy"] == pytest.approx(float(values.std(correction=0)))
    first = [scores[job.digest]["worst_accuracy"] for job in jobs_of(home)[::2]]
    assert found["methods"][0]["worst"]["mean"] == pytest.approx(sum(first) / 2)


def test_a_run_that_was_made_again_is_scored_again_and_the_others_are_not(home, capsys):
    measured(home, capsys)
    changed = jobs_of(home)[0]
    # as another version would leave it: another model of the same settings
    noted = json.loads((home / CLIENTS).read_text())
    before = noted["runs"][changed.digest]["worst_accuracy"]
    scores = {
        **noted["runs"],
        changed.digest: {**noted["runs"][changed.digest], "worst_accuracy": 2.0},
    }
    models = {**noted["models"], changed.digest: "of another model"}
    write_sealed(home / CLIENTS, {"runs": scores, "models": models})
    _, told = measured(home, capsys)
    assert told.splitlines() == ["scoring the clients of FedSLS, seed 0"]
    assert read_client_scores(home)[changed.digest]["worst_accuracy"] == before


def test_runs_of_a_compact_file_have_no_model(home, capsys):
    assert main(["export", str(home), "--pack", str(home / "results.jsonl.gz")]) == 0
    before, _ = measured(home, capsys)
    kept = (home / CLIENTS).read_bytes()
    shutil.rmtree(home / "runs")
    after, told = measured(home, capsys)
    assert after == before
    assert told == ""
    assert (home / CLIENTS).read_bytes() == kept
    (home / CLIENTS).unlink()
    without, _ = measured(home, capsys)
    assert without["methods"] == []
    assert without["without_model"] == 4
    assert main(["clients", str(home)]) == 0
    assert "4 finished runs are not here with their models" in capsys.readouterr().out


def test_a_damaged_file_is_one_line(home, capsys):
    measured(home, capsys)
    path = home / CLIENTS
    path.write_text(path.read_text().replace("worst_accuracy", "worst_accurasy", 1))
    assert main(["clients", str(home)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "clients.json: damaged" in error


def test_no_results_is_one_line(tmp_path, capsys):
    assert main(["clients", str(tmp_path)]) == 2
    assert "no results here" in capsys.readouterr().err
