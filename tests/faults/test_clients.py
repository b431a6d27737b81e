"""Clients with impossible numbers, or with nothing that counts: the model stays finite, and it is said."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.data import Dataset

from fedstep import InputError, fit
from fedstep.execute import Cohort, Sequential
from fedstep.run.identity import federation_digest
from fedstep.spec import build, methods
from fedstep.study import work as module
from fedstep.study.dealt import DealtTask
from fedstep.study.plan import Job, Setting
from fedstep.study.work import work

NET = torch.nn.Linear(4, 2)


def clients(count=6, ignored=()):
    """A quarter of the targets is ignored, and all of some clients."""
    g = torch.Generator().manual_seed(0)
    made = []
    for client in range(count):
        x = torch.randn(8 + client, 4, generator=g)
        y = (x[:, 0] > 0).long()
        if ignored:
            y[::4] = -100
        if client in ignored:
            y[:] = -100
        made.append((x, y))
    return made


def run(data, method, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = {"rounds": 2, "local_steps": 2, "batch": 4, "progress": False, "seed": 0}
        return fit(NET, data, method, **{**given, **options})


def overflow(method):
    """Whether a client of huge inputs leaves the model finite; None where a method does not suit the task."""
    data = clients()
    data[3] = (1e20 * data[3][0], data[3][1])
    try:
        result = run(data, f"{method}(weighting=BySamples())", guard=False)
    except InputError:
        return None
    return bool(torch.isfinite(result.x).all()) and bool(torch.isfinite(result.server.eta_g))


@pytest.mark.parametrize("method", ["fedavg", "fedexp", "fedexpsls"])
def test_a_client_of_huge_inputs_leaves_the_model_finite(method):
    assert overflow(method)


@pytest.mark.slow
@pytest.mark.parametrize("method", list(methods()))
def test_a_client_of_huge_inputs_leaves_every_method_finite(method):
    assert overflow(method) is not False


@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
def test_a_client_without_a_target_that_counts_is_skipped_and_counted(executor):
    data = clients(3, ignored=(2,))
    beside = run(data, "fedavg(step=0.5)", executor=executor, rounds=1)
    assert (beside.rows[0].clients, beside.rows[0].rejected) == (2, 1)
    without = run(data[:2], "fedavg(step=0.5)", executor=executor, rounds=1)
    assert torch.equal(without.x, beside.x)
    assert without.rows[0].loss == beside.rows[0].loss


def test_that_all_clients_were_rejected_is_said_once():
    data = [(float("nan") * x, y) for x, y in clients(3)]
    with pytest.warns(UserWarning, match="round 1: all 3 clients were rejected") as told:
        fit(NET, data, "fedavg", 3, progress=False)
    assert sum("were rejected" in str(warning.message) for warning in told) == 1


def interrupted(home: Path) -> Job:
    """A run of a study that has had one of its three rounds."""
    setting = Setting(
        "synthetic",
        "logistic(inputs=40, classes=10)",
        "Iid(clients=4)",
        rounds=3,
        per_round=2,
        steps=2,
    )
    job = Job(setting, "fedavg", 0)

    def stop(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work(job, home, None, stop)
    return job


def test_a_run_does_not_go_on_with_a_method_of_other_parts(tmp_path, monkeypatch):
    # as an earlier version may have had it: its checkpoint lacks what the new parts remember
    job = interrupted(tmp_path)
    monkeypatch.setattr(module, "build", lambda text: build("fedavgm"))
    with pytest.raises(InputError, match=r"another run \(not the same: algorithm\)"):
        work(job, tmp_path, None)


def test_a_run_does_not_go_on_over_changed_data(tmp_path, monkeypatch):
    job = interrupted(tmp_path)
    dealt = module.dealt_task_of(job, None)
    federation = dealt.split.federation
    other = replace(federation, fields=(federation.fields[0] + 1, federation.fields[1]))
    split = replace(dealt.split, federation=other)
    changed = DealtTask(split, federation_digest(other))
    monkeypatch.setattr(module, "dealt_task_of", lambda *_: changed)
    with pytest.raises(InputError, match=r"another run \(not the same: data\)"):
        work(job, tmp_path, None)


class Augmented(Dataset):
    """Samples with noise, which are read a batch at a time; one of them cannot be read."""

    def __init__(self, inputs, targets, broken=None):
        self.inputs = inputs
        self.targets = targets
        self.broken = broken

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, number):
        if number == self.broken:
            raise OSError("gone\nwith the wind")
        return self.inputs[number] + 0.1 * torch.rand(4), self.targets[number]


@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
def test_a_dataset_that_raises_in_the_middle_of_a_run_is_named_with_its_client(executor):
    data = [Augmented(*one) for one in clients()]
    data[3].broken = 7
    with pytest.raises(InputError) as told:
        run(data, "fedavg", executor=executor, local_steps=6)
    assert str(told.value) == ("client 3: sample 7 cannot be read (OSError: gone with the wind)")


def test_an_input_error_is_one_line_whatever_it_quotes():
    assert str(InputError("label 'a\nb'\r\nis unknown")) == "label 'a b' is unknown"
    again = pickle.loads(pickle.dumps(InputError("a\nb")))
    assert str(again) == "a b"


class Bent(torch.nn.Module):
    """A layer behind a function without parameters."""

    def __init__(self, bend):
        super().__init__()
        self.layer = NET
        self.bend = bend

    def forward(self, x):
        return self.bend(self.layer(x))


CHANGED = {
    "validation": {"validation": clients(2)[1]},
    "layers": {"model": Bent(torch.nn.Tanh())},
    "loss_settings": {"loss": torch.nn.CrossEntropyLoss(label_smoothing=0.2)},
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_fit_does_not_go_on_over_what_was_changed(name, tmp_path):
    given = {
        "model": Bent(torch.nn.ReLU()),
        "loss": torch.nn.CrossEntropyLoss(label_smoothing=0.1),
        "validation": clients(1)[0],
    }

    def stop(row):
        raise KeyboardInterrupt

    def train(on_round=None, **changed):
        settings = {**given, **changed}
        return fit(
            settings.pop("model"),
            clients(3),
            "fedavg",
            2,
            batch=4,
            out=tmp_path,
            progress=False,
            on_round=on_round,
            **settings,
        )

    with pytest.raises(KeyboardInterrupt):
        train(stop)
    with pytest.raises(InputError, match=rf"another run \(not the same: {name}\)"):
        train(**CHANGED[name])
    assert len(train().rows) == 2
