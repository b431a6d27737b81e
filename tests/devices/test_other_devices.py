"""A run on another device: nothing is left on the CPU, the bits are the CPU's, nobody waits."""

from __future__ import annotations

import pytest
import torch
from elsewhere import DEVICE, Elsewhere, OtherDevice, WrongDeviceError
from torch import nn

from fedstep import InputError, fit
from fedstep.execute import Cohort, Sequential
from fedstep.models.function import FunctionModel
from fedstep.optim import Armijo
from fedstep.run.devices import VARIABLE, chosen_device

METHODS = ["fedavg", "fedpace", "fedsls", "scaffold", "fedexprox", "fednew"]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4))


def layer():
    torch.manual_seed(0)
    return nn.Linear(12, 4)


def clients():
    """Of unequal size: blocks are padded, and some clients leave theirs early."""
    draw = torch.Generator().manual_seed(7)
    truth = torch.randn(12, 4, generator=draw)
    each = []
    for client in range(5):
        x = torch.randn(10 + 5 * client, 12, generator=draw)
        each.append((x, (x @ truth).argmax(1)))
    return each


def trained(module, method, executor=None, **settings):
    *some, test = clients()
    settings = {"rounds": 2, "per_round": 3, "batch": 8, "local_epochs": 1, **settings}
    return fit(module, some, method, executor=executor, test=test, progress=False, **settings)


def test_the_other_device_cannot_be_mixed_with_the_cpu():
    with OtherDevice() as device:
        there = torch.ones(3, device=DEVICE)
        assert isinstance(there + 1, Elsewhere)
        with pytest.raises(WrongDeviceError):
            there + torch.ones(3)
        with pytest.raises(WrongDeviceError):
            torch.ones(3)[there.long()]
        assert not device.reads
        assert float(there.sum()) == 3.0
        assert device.reads.total() == 1


@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
@pytest.mark.parametrize("module", [layer, network])
@pytest.mark.parametrize("method", METHODS)
def test_a_run_on_another_device_sees_the_batches_of_the_cpu(method, module, executor):
    here = trained(module(), method, executor)
    with OtherDevice():
        there = trained(module().to(DEVICE), method, executor)
        assert there.server.x.device == DEVICE
        assert torch.equal(there.server.x.cpu(), here.server.x)
        assert there.rows[-1].test == here.rows[-1].test


def test_a_run_is_moved_where_it_is_asked_to():
    with OtherDevice():
        there = trained(layer(), "fedavg", device="lazy")
        assert there.server.x.device == DEVICE
        assert there.model.weight.device == DEVICE


def test_the_variable_names_the_device_where_nobody_else_does(monkeypatch):
    monkeypatch.setenv(VARIABLE, "lazy")
    with OtherDevice():
        assert trained(layer(), "fedavg").server.x.device == DEVICE
        assert trained(layer(), "fedavg", device="cpu").server.x.device.type == "cpu"


def test_a_function_of_a_vector_is_moved_too():
    with OtherDevice():
        model = FunctionModel(lambda x, batch: (batch.inputs @ x) ** 2, torch.ones(12))
        there = trained(model, "fedavg", device="lazy")
        assert there.server.x.device == DEVICE


@pytest.mark.parametrize("module", [layer, network])
def test_a_standardized_run_is_moved_with_its_first_layer(module):
    here = trained(module(), "fedavg", standardize=True)
    with OtherDevice():
        there = trained(module(), "fedavg", standardize=True, device="lazy")
        assert torch.equal(there.server.x.cpu(), here.server.x)


@pytest.mark.parametrize("method", ["scaffold", "fedpace"])
def test_a_run_that_was_interrupted_goes_on_on_the_device(tmp_path, method, monkeypatch):
    class Enough(Exception):
        pass

    def stop(moment):
        if moment.report.round == 2:
            raise Enough

    settings = {"rounds": 3, "out": tmp_path, "device": "lazy"}
    whole = trained(network(), method, rounds=3)
    with OtherDevice():
        with pytest.raises(Enough):
            trained(network(), method, callbacks=[stop], **settings)
        there = trained(network(), method, **settings)
        assert torch.equal(there.server.x.cpu(), whole.server.x)


@pytest.mark.parametrize(
    ("method", "executor", "a_step", "a_trial"),
    # a search has to know whether it is over: once before it, and of a block also who goes on
    [
        ("fedavg", Sequential(), 0, 0),
        ("fedavg", Cohort(), 0, 0),
        ("fedpace", Sequential(), 1, 1),
        ("fedpace", Cohort(), 1, 2),
        ("fedsls", Sequential(), 1, 1),
        ("fedsls", Cohort(), 1, 2),
    ],
)
def test_a_local_step_reads_few_numbers_of_the_device(method, executor, a_step, a_trial):
    def counted(steps: int) -> tuple[int, int]:
        settings = {"local_epochs": None, "local_steps": steps, "rounds": 1, "per_round": 1}
        with OtherDevice() as device:
            (row,) = trained(network(), method, executor, device="lazy", **settings).rows
        # one forward pass a gradient, the rest are trials
        return device.reads.total(), row.forwards - row.backwards

    few_reads, few_trials = counted(2)
    many_reads, many_trials = counted(18)
    assert many_reads - few_reads <= 16 * a_step + a_trial * (many_trials - few_trials)


def test_a_search_of_torch_runs_where_the_parameters_are():
    def walked(device):
        module = network().to(device)
        optimizer = Armijo(module.parameters())
        (x, y), *_ = clients()
        x, y = x.to(device), y.to(device)
        for _ in range(3):
            optimizer.step(lambda: nn.functional.cross_entropy(module(x), y))
        return [parameter.detach().cpu() for parameter in module.parameters()]

    here = walked("cpu")
    with OtherDevice():
        there = walked("lazy")
    assert all(torch.equal(a, b) for a, b in zip(here, there, strict=True))


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "meta", "cuda:99"])
def test_a_device_that_is_none_is_one_line(name, monkeypatch):
    with pytest.raises(InputError, match=f"^device='{name}': .*give cpu") as refused:
        chosen_device(name)
    assert "\n" not in str(refused.value)
    monkeypatch.setenv(VARIABLE, name)
    with pytest.raises(InputError, match=f"^{VARIABLE}={name}: "):
        trained(layer(), "fedavg")


def test_worker_processes_refuse_another_device():
    with OtherDevice(), pytest.raises(InputError, match="use workers=1, or device='cpu'"):
        trained(layer(), "fedavg", workers=2, device="lazy")
