"""What a careless or unlucky user does, and what must not follow from it."""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import fedstep
from fedstep.execute import Cohort, Sequential
from fedstep.models.layers import is_linear
from fedstep.models.losses import per_sample
from fedstep.optim import Armijo
from fedstep.run.evaluate import evaluate
from fedstep.study.kept import finished, folder_of
from fedstep.study.plan import Job, Setting
from fedstep.study.study_file import read_study
from fedstep.study.work import work


def clients(sizes=(12, 7, 30, 9), classes=3):
    g = torch.Generator().manual_seed(1)
    return [
        (torch.randn(n, 4, generator=g).double(), torch.randint(classes, (n,), generator=g))
        for n in sizes
    ]


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).double()


class Centred(nn.Module):
    """A model that mixes samples."""

    def __init__(self):
        super().__init__()
        self.inner = net()

    def forward(self, x):
        h = self.inner(x)
        return h - h.mean(0)


@pytest.mark.parametrize(
    "model",
    [
        Centred(),
        nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False)).double(),
    ],
)
def test_padding_does_not_leak_into_models_that_mix_samples(model):
    ends = [
        fedstep.fit(model, clients(), "fedavg", rounds=3, executor=e).x
        for e in (Sequential(), Cohort())
    ]
    assert torch.allclose(*ends, rtol=1e-12, atol=1e-12)


def test_a_model_with_hooks_is_not_taken_for_linear():
    layer = nn.Linear(4, 3)
    assert is_linear(layer)
    layer.register_forward_hook(lambda module, inputs, output: torch.sin(output))
    assert not is_linear(layer)


def test_one_client_with_huge_values_does_not_ruin_the_model():
    data = [(x.float(), y) for x, y in clients()]
    data[2] = (data[2][0] * 1e21, data[2][1])
    result = fedstep.fit(net().float(), data, "fedexp", rounds=3, local_steps=1)
    assert torch.isfinite(result.x).all()
    assert [r.rejected for r in result.rows] == [1, 1, 1]


def test_clients_without_a_finite_loss_do_not_shorten_the_mean():
    data = clients()
    data[0], data[1] = ((torch.full_like(x, math.nan), y) for x, y in data[:2])
    for method in ("fedsls", "fedavg"):
        row = fedstep.fit(net(), data, method, rounds=1).rows[0]
        assert (row.clients, row.rejected) == (2, 2)


def test_accuracy_of_sequence_outputs_is_that_of_the_class_axis():
    class Copy(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return self.scale * functional.one_hot(x, 5).double().movedim(-1, 1)  # (N, C, T)

    tokens = torch.randint(5, (20, 5), generator=torch.Generator().manual_seed(0))
    model = fedstep.ModuleModel(Copy().double())
    assert evaluate(model.evaluating(), model.init(), (tokens, tokens)).accuracy == 1.0


def test_the_loss_asked_for_is_the_loss_used():
    z, y, w = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([1.0, 2.0, 5.0])
    for loss in (
        partial(functional.cross_entropy, reduction="sum"),
        partial(functional.cross_entropy, weight=w),
        nn.CrossEntropyLoss(reduction="sum"),
        nn.CrossEntropyLoss(weight=w),
        functional.cross_entropy,
        nn.CrossEntropyLoss(),
    ):
        assert torch.allclose(per_sample(loss)(z, y).mean(), loss(z, y))


def test_a_bad_out_is_found_before_training(tmp_path):
    file = tmp_path / "afile"
    file.write_text("")
    seen = []
    with pytest.raises(fedstep.InputError, match="afile"):
        fedstep.fit(net(), clients(), rounds=2, out=file, on_round=seen.append)
    assert not seen
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/spec.json").write_text("{")
    with pytest.raises(fedstep.InputError, match="broken"):
        fedstep.fit(net(), clients(), rounds=2, out=tmp_path / "broken", on_round=seen.append)
    assert not seen


def test_an_interrupted_fit_leaves_its_rounds(tmp_path):
    def stop(row):
        if row.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedstep.fit(net(), clients(), rounds=5, out=tmp_path, on_round=stop)
    assert [
        json.loads(line)["round"] for line in (tmp_path / "rounds.jsonl").read_text().splitlines()
    ] == [1, 2, 3]
    fedstep.fit(net(), clients(), rounds=5, out=tmp_path)
    assert len((tmp_path / "rounds.jsonl").read_text().splitlines()) == 5


def test_results_of_other_data_are_not_overwritten(tmp_path):
    fedstep.fit(net(), clients(), rounds=1, out=tmp_path)
    other = [(2 * x, y) for x, y in clients()]
    with pytest.raises(fedstep.InputError, match="another run"):
        fedstep.fit(net(), other, rounds=1, out=tmp_path)


def test_numpy_seeds_are_the_same_seeds(tmp_path):
    one = fedstep.fit(net(), clients(), rounds=2, seed=3)
    two = fedstep.fit(net(), clients(), rounds=2, seed=np.int64(3), out=tmp_path)
    assert torch.equal(one.x, two.x)


def test_a_search_that_never_succeeds_is_told():
    x = 1e6 * torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    with pytest.warns(UserWarning, match="every search failed.*scale the inputs"):
        fedstep.fit(
            nn.Linear(3, 1),
            [(x, x.sum(1, keepdim=True))],
            "fedsls",  # it finds no step below 3e-4; fedpace does, and trains
            rounds=2,
            loss=nn.MSELoss(),
        )


def test_a_constructor_in_place_of_an_algorithm_is_told():
    with pytest.raises(fedstep.InputError, match=r"call the constructor: zoo.fedpace\(\)"):
        fedstep.fit(net(), clients(), fedstep.zoo.fedsls, rounds=1)


def test_a_model_passed_twice_gives_the_same_bits():
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]).double())
    model = fedstep.ModuleModel(net(), loss)
    ends = [
        fedstep.fit(model, clients((50, 50, 30, 30)), rounds=2, executor=Cohort()).x
        for _ in range(2)
    ]
    assert torch.equal(*ends)


def test_evaluation_touches_no_generator():
    class Noisy(nn.Linear):
        def forward(self, x):
            return super().forward(x) + torch.randn(3).double()

    before = torch.get_rng_state()
    rows = [
        fedstep.fit(Noisy(4, 3).double(), clients(), rounds=1, test=clients()[0]) for _ in range(1)
    ]
    assert math.isfinite(rows[0].rows[0].test_loss)
    state = torch.get_rng_state()
    model = fedstep.ModuleModel(Noisy(4, 3).double())
    first = torch.get_rng_state()
    scores = {evaluate(model.evaluating(), model.init(), clients()[0]).loss for _ in range(2)}
    assert len(scores) == 1
    assert torch.equal(first, torch.get_rng_state())
    assert not torch.equal(before, state)  # making a layer draws from it: the test can tell


def test_a_broken_closure_leaves_the_parameters_where_they_were():
    w = torch.ones(3, requires_grad=True)
    calls = []

    def loss():
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return (w**4).sum() * (1 if len(calls) == 1 else 100)

    optimizer = Armijo([w])
    with pytest.raises(fedstep.InputError, match="not stepped yet"):
        _ = optimizer.trials
    with pytest.raises(KeyboardInterrupt):
        optimizer.step(loss)
    assert torch.equal(w.detach(), torch.ones(3))


def test_a_finished_run_that_lost_rows_is_run_again(tmp_path):
    job = Job(
        Setting(
            "synthetic", "logistic(inputs=40, classes=10)", "Iid(clients=4)", 3, 2, 2, None, 10, 1
        ),
        "fedavg",
        0,
    )
    work(job, tmp_path, None)
    path = folder_of(job, tmp_path) / "rounds.jsonl"
    whole = path.read_text().splitlines()
    path.write_text(whole[0] + "\n")
    assert not finished(job, tmp_path)
    work(job, tmp_path, None)
    assert finished(job, tmp_path)


def test_a_study_may_count_epochs(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(
        'data="synthetic"\nmodel="logistic()"\nepochs=1\n[[methods]]\nlabel="a"\nspec="fedsls"\n'
    )
    setting = read_study(path).setting
    assert (setting.steps, setting.epochs) == (None, 1)


@pytest.mark.parametrize(
    "line",
    [
        'rounds="4"',
        "rounds=0",
        "rounds=2.5",
        "seeds=[0,0]",
        "seeds=[]",
        "per_round=0",
        "eval_limit=0",
    ],
)
def test_numbers_in_a_study_are_checked(tmp_path, line):
    path = tmp_path / "s.toml"
    path.write_text(
        f'data="synthetic"\nmodel="logistic()"\n{line}\n[[methods]]\nlabel="a"\nspec="fedsls"\n'
    )
    with pytest.raises(fedstep.InputError, match="whole number"):
        read_study(path)
