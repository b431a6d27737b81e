"""The front door, with good input and with bad."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

import fedstep
from fedstep import zoo
from fedstep.execute import Cohort, Sequential


def clients(n=5, size=12):
    g = torch.Generator().manual_seed(1)
    return [
        (torch.randn(size, 4, generator=g), torch.randint(3, (size,), generator=g))
        for _ in range(n)
    ]


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


TEST = clients(1, 30)[0]


def test_default_call_trains_without_a_learning_rate():
    result = fedstep.fit(net(), clients(), rounds=15, test=TEST)
    assert len(result.rows) == 15
    assert result.rows[-1].loss < result.rows[0].loss
    assert result.model(TEST[0]).shape == (30, 3)
    first = result.rows[0]
    assert first.forwards > first.backwards == 5 * 20
    numbers = 4 * 8 + 8 + 8 * 3 + 3
    # fedpace: the model and the scales each way; four numbers of the step up, four down
    assert first.bytes_up == 5 * 4 * (2 * numbers + 4)
    assert first.bytes_down == 5 * 4 * (2 * numbers + 4)
    assert first.trials >= 1
    assert first.steps[0] <= first.steps[2] <= first.steps[4]
    assert first.gradients == pytest.approx((first.forwards - 100) / 3 + 100)


def test_workers_and_threads_do_not_change_the_bits():
    before = torch.get_num_threads()
    ends = [
        fedstep.fit(net(), clients(), rounds=3, workers=w, executor=Sequential()).x
        for w in (1, 2, 3)
    ]
    torch.set_num_threads(2)
    try:
        ends.append(fedstep.fit(net(), clients(), rounds=3, executor=Sequential()).x)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(ends[0], other) for other in ends[1:])


def test_bad_numbers_of_workers_are_refused():
    with pytest.raises(fedstep.InputError, match="workers=0: give at least 1"):
        fedstep.fit(net(), clients(), rounds=1, workers=0)
    with pytest.raises(fedstep.InputError, match="workers=2: this executor runs in one place"):
        fedstep.fit(net(), clients(), rounds=1, workers=2, executor=lambda *a: iter(()))


def test_the_model_given_is_not_changed():
    model = net()
    before = [p.clone() for p in model.parameters()]
    fedstep.fit(model, clients(), rounds=2)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_trained_model_is_the_readout():
    result = fedstep.fit(net(), clients(), "fedexp", rounds=3)
    flat = torch.cat([p.detach().reshape(-1) for p in result.model.parameters()])
    assert torch.equal(flat, result.x)
    assert not torch.equal(result.x, result.server.x)


def test_accuracy_is_that_of_the_trained_model():
    result = fedstep.fit(net(), clients(), rounds=3, test=TEST)
    hits = (result.model(TEST[0]).argmax(-1) == TEST[1]).float().mean()
    assert result.rows[-1].accuracy == pytest.approx(float(hits))
    loss = nn.functional.cross_entropy(result.model(TEST[0]), TEST[1]).detach()
    assert result.rows[-1].test_loss == pytest.approx(float(loss), rel=1e-5)


def test_numpy_arrays_and_datasets_serve_as_clients():
    arrays = [(np.asarray(x), np.asarray(y)) for x, y in clients()]
    tensors = [torch.utils.data.TensorDataset(*c) for c in clients()]
    subsets = [torch.utils.data.Subset(t, range(len(t))) for t in tensors]
    ends = [fedstep.fit(net(), c, rounds=2).x for c in (clients(), arrays, tensors, subsets)]
    assert all(torch.equal(ends[0], e) for e in ends[1:])


def test_regression_needs_only_another_loss():
    data = [(x, x.sum(-1, keepdim=True)) for x, _ in clients()]
    result = fedstep.fit(nn.Linear(4, 1), data, rounds=10, loss=nn.MSELoss(), test=data[0])
    assert result.rows[-1].loss < 1e-3 * result.rows[0].loss
    assert math.isnan(result.rows[-1].accuracy)


def test_a_plain_function_can_be_trained():
    def loss(x, batch):
        return (batch.inputs @ x - batch.targets) ** 2

    data = [(x, x @ torch.tensor([1.0, 2.0, 3.0, 4.0])) for x, _ in clients()]
    result = fedstep.fit(fedstep.FunctionModel(loss, torch.zeros(4)), data, rounds=30)
    assert torch.allclose(result.x, torch.tensor([1.0, 2.0, 3.0, 4.0]), atol=1e-2)
    assert result.model is None


def test_evaluation_can_be_made_rarer():
    rows = fedstep.fit(net(), clients(), rounds=5, test=TEST, every=2).rows
    assert [math.isnan(r.accuracy) for r in rows] == [True, False, True, False, False]


def test_out_holds_everything_and_is_not_overwritten_by_another_run(tmp_path):
    result = fedstep.fit(net(), clients(), rounds=3, test=TEST, out=tmp_path / "a")
    rows = [json.loads(line) for line in (tmp_path / "a/rounds.jsonl").read_text().splitlines()]
    assert [r["round"] for r in rows] == [1, 2, 3]
    assert rows[2]["accuracy"] == result.rows[2].accuracy
    state = safetensors.torch.load_file(tmp_path / "a/model.safetensors")
    assert torch.equal(state["0.weight"], result.model[0].weight)
    page = (tmp_path / "a/report.html").read_text()
    assert "<svg" in page
    assert "http" not in page.replace("http-equiv", "")
    assert json.loads((tmp_path / "a/spec.json").read_text())["seed"] == 0
    with pytest.raises(fedstep.InputError, match="another run"):
        fedstep.fit(net(), clients(), rounds=4, out=tmp_path / "a")
    fedstep.fit(net(), clients(), rounds=3, test=TEST, out=tmp_path / "a")


def test_dropout_is_the_same_in_both_executors_and_in_every_trial():
    model = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 3)).double()
    data = [(x.double(), y) for x, y in clients()]
    one, two = (fedstep.fit(model, data, rounds=3, executor=e) for e in (Sequential(), Cohort()))
    assert torch.allclose(one.x, two.x, rtol=1e-12, atol=1e-12)
    assert sum(r.failed for r in one.rows) == 0


def test_a_failing_loss_tells_client_and_round():
    def loss(prediction, target):
        raise RuntimeError("broken loss")

    with pytest.raises(RuntimeError, match="broken loss") as caught:
        fedstep.fit(net(), clients(), rounds=1, loss=loss, executor=Sequential())
    assert caught.value.__notes__ == ["in round 0, client 0"]


BAD = {
    "more clients than there are": (dict(per_round=9), r"per_round=9.*5 clients.*1 to 5"),
    "no client a round": (dict(per_round=0), "per_round=0"),
    "no rounds": (dict(rounds=0), "rounds=0"),
    "empty batch": (dict(batch=0), "batch=0"),
    "steps and epochs": (dict(local_steps=3, local_epochs=1), "local_steps=3 and local_epochs=1"),
    "misspelt method": (dict(algorithm="fedsl"), r"'fedsl'.*did you mean fedsls"),
    "misspelt argument": (dict(algorithm="fedsls(maxstep=1)"), r"maxstep.*did you mean max_step"),
    "positional argument": (dict(algorithm="fedsls(0.1)"), "name every argument"),
    "no method at all": (dict(algorithm="zzz qqq"), "not a method"),
    "c out of range": (dict(algorithm="fedsls(c=1.2)"), r"c=1.2.*\(0, 1\)"),
    "cap not positive": (dict(algorithm="fedsls(max_step=0)"), "max_step=0.*positive"),
    "negative step": (dict(algorithm="fedavg(step=-1)"), "step=-1"),
    "negative server step": (dict(algorithm="fedavg(server_step=-1)"), "step=-1"),
    "negative mu": (dict(algorithm="fedprox(mu=-1)"), "mu=-1"),
    "unknown part": (dict(algorithm="fedsls(reset=Restert())"), "did you mean Restart"),
    "test set that does not fit": (
        dict(test=(torch.zeros(3, 4), torch.zeros(2))),
        "test.*differ in length",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_that_names_it(case):
    options, message = BAD[case]
    with pytest.raises(fedstep.InputError, match=message) as caught:
        fedstep.fit(**{"model": net(), "clients": clients(), "rounds": 1, **options})
    assert "\n" not in str(caught.value)


def test_bad_clients_are_named():
    for data, message in (
        ([], "no clients"),
        (
            [clients()[0], (torch.zeros(0, 4), torch.zeros(0, dtype=torch.long))],
            "client 1 has no samples",
        ),
        ([clients()[0], (torch.zeros(3, 4), torch.zeros(2))], "client 1.*differ in length"),
        (
            [clients()[0], (torch.zeros(3, 5), torch.zeros(3, dtype=torch.long))],
            "do not fit together",
        ),
        ([torch.zeros(3)], "client 0 is a Tensor"),
    ):
        with pytest.raises(fedstep.InputError, match=message):
            fedstep.fit(net(), data, rounds=1)


def test_module_without_parameters_is_refused():
    with pytest.raises(fedstep.InputError, match="Flatten has no parameters"):
        fedstep.fit(nn.Flatten(), clients(), rounds=1)
    with pytest.raises(fedstep.InputError, match="model is a str"):
        fedstep.fit("resnet", clients(), rounds=1)


def test_batch_norm_is_refused_with_the_remedy_and_the_remedy_works():
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    with pytest.raises(fedstep.InputError, match=r"running statistics in 1:.*to_group_norm"):
        fedstep.fit(model, clients(), rounds=1)
    converted = fedstep.to_group_norm(model)
    assert isinstance(converted[1], nn.GroupNorm)
    assert isinstance(model[1], nn.BatchNorm1d)
    rows = fedstep.fit(converted, clients(), rounds=5).rows
    assert rows[-1].loss < rows[0].loss


def test_frozen_parameters_stay():
    model = net()
    model[0].weight.requires_grad_(False)
    result = fedstep.fit(model, clients(), rounds=2)
    assert torch.equal(result.model[0].weight, model[0].weight)
    assert not torch.equal(result.model[2].weight, model[2].weight)
    assert result.x.numel() == 8 + 8 * 3 + 3


def test_buffers_are_not_written_by_training():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = net(), nn.Buffer(torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return self.inner(x)

    result = fedstep.fit(Counting(), clients(), rounds=2)
    assert float(result.model.calls) == 0


def test_one_sample_and_constant_loss_are_fine():
    data = [*clients(), (torch.randn(1, 4), torch.tensor([1]))]
    assert torch.isfinite(fedstep.fit(net(), data, rounds=3, executor=Cohort()).x).all()
    flat = fedstep.FunctionModel(
        lambda x, batch: 0 * batch.targets + 0 * x.sum() + 1.0, torch.ones(3)
    )
    result = fedstep.fit(flat, [(torch.zeros(4, 1), torch.zeros(4))], rounds=2)
    assert torch.equal(result.x, torch.ones(3))
    assert result.rows[0].failed == 0
    assert result.rows[0].trials == 0


def test_nan_in_one_batch_costs_one_step_only():
    data = clients()
    data[2][0][0, 0] = math.nan
    row = fedstep.fit(net(), data, rounds=1, batch=4, local_steps=3).rows[0]
    assert row.failed == 1  # one of the three batches of client 2
    assert row.rejected == 0
    rejected = fedstep.fit(net(), data, "fedavg", rounds=1, batch=4, local_steps=3)
    assert rejected.rows[0].rejected == 1
    assert torch.isfinite(rejected.x).all()


def test_a_round_in_which_nobody_counts_leaves_the_model():
    data = [(torch.full((4, 4), math.nan), y[:4]) for _, y in clients()]
    model = net()
    result = fedstep.fit(model, data, "fedavg", rounds=2)
    assert torch.equal(result.model[0].weight, model[0].weight)
    assert [r.clients for r in result.rows] == [0, 0]


def test_losses_with_class_weights_keep_their_own_mean():
    weight = torch.tensor([1.0, 5.0, 0.1])
    data = [(x, y) for x, y in clients(3, 12)] + clients(1, 5)
    loss = nn.CrossEntropyLoss(weight=weight)
    ends = [
        fedstep.fit(net(), data, rounds=2, loss=loss, executor=e).x
        for e in (Sequential(), Cohort())
    ]
    assert torch.allclose(*ends, rtol=1e-4, atol=1e-5)
    plain = fedstep.fit(net(), data, rounds=2).x
    assert not torch.allclose(ends[0], plain, rtol=1e-2)


def test_an_algorithm_object_is_as_good_as_its_name():
    made, named = (
        fedstep.fit(net(), clients(), a, rounds=2).x for a in (zoo.fedexp(0.2), "fedexp(step=0.2)")
    )
    assert torch.equal(made, named)
