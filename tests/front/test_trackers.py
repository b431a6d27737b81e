"""Experiment trackers get every number of every round, and nothing leaves the machine."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import fedstep
from fedstep.callbacks import MLflow, TensorBoard, WandB
from fedstep.callbacks.trackers import numbers_of


def train(callbacks, **options):
    g = torch.Generator().manual_seed(1)
    data = []
    for _ in range(3):
        x = torch.randn(12, 4, generator=g)
        data.append((x, (x[:, 0] > 0).long()))
    torch.manual_seed(0)
    options = {"local_steps": 2, "batch": 4, "progress": False, "test": data[0], **options}
    return fedstep.fit(nn.Linear(4, 2), data, "fedsls", 3, callbacks=callbacks, **options)


def test_what_is_tracked_are_the_finite_columns_of_a_row():
    row = train([], every=3).rows[0]
    numbers = numbers_of(row)
    assert numbers["loss"] == row.loss
    assert numbers["step"] == row.steps[2]
    assert "accuracy" not in numbers  # not evaluated in this round
    assert all(math.isfinite(value) for value in numbers.values())


def test_a_tracker_that_is_not_installed_is_named(monkeypatch, tmp_path):
    sys_modules = __import__("sys").modules
    for name, callback in (
        ("torch.utils.tensorboard", TensorBoard(tmp_path)),
        ("mlflow", MLflow()),
        ("wandb", WandB()),
    ):
        monkeypatch.setitem(sys_modules, name, None)
        with pytest.raises(fedstep.InputError, match=r"pip install 'fedstep\[trackers\]'"):
            train([callback])


def test_tensorboard_has_every_round(tmp_path):
    pytest.importorskip("tensorboard")
    result = train([TensorBoard(tmp_path)])
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path)).Reload()
    losses = [event.value for event in events.Scalars("loss")]
    assert losses == pytest.approx([row.loss for row in result.rows])


def test_mlflow_has_every_round_also_those_of_an_earlier_call(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    uri = (tmp_path / "mlruns").as_uri()
    result = train([MLflow(uri=uri)], out=tmp_path / "run")
    train([MLflow(uri=uri)], out=tmp_path / "run")  # read back
    client = mlflow.MlflowClient(uri)
    (experiment,) = [e for e in client.search_experiments() if e.name == "fedstep"]
    runs = client.search_runs([experiment.experiment_id])
    assert len(runs) == 2
    for run in runs:
        history = client.get_metric_history(run.info.run_id, "loss")
        assert [point.value for point in history] == pytest.approx([r.loss for r in result.rows])
        assert run.data.params["seed"] == "0"


def test_wandb_writes_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    train([WandB(folder=tmp_path)])
    assert list(tmp_path.glob("wandb/offline-run-*"))
