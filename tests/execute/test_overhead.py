"""What a round costs besides arithmetic, counted in operators of torch: no clock is asked.

The bounds are a little above what was counted when they were set. Who goes beyond one has made
every round of every run slower: find out which operators came in (`counted(...).most_common()`),
and raise the bound only if they are worth it.
"""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from fedstep.core import looks
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.spec import build

READ = "aten._local_scalar_dense.default"  # a number that Python asks for: the device is waited for


class Operators(TorchDispatchMode):
    """Counts what reaches torch's dispatcher, views and backward passes included."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls[str(function)] += 1
        return function(*args, **(kwargs or {}))


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def layer():
    return nn.Linear(3, 2)


def pictures():
    return nn.Sequential(
        nn.Unflatten(1, (1, 1, 3)),
        nn.Conv2d(1, 2, (1, 2)),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4, 2),
    )


def simulation(clients, method, executor, steps, module) -> Simulation:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(4 * clients, 3, generator=draw)
    y = torch.randint(2, (4 * clients,), generator=draw)
    federation = Federation.of(list(zip(x.split(4), y.split(4), strict=True)))
    torch.manual_seed(0)
    task = Task(build(method), ModuleModel(module()), federation, Plan(batch=4, steps=steps))
    return Simulation(task, clients, executor=executor)


def counted(
    clients, method="fedavg(step=0.1)", executor=None, steps=1, module=network
) -> Counter[str]:
    """The operators of the third round; the first two may do what is done once."""
    simulated = simulation(clients, method, executor or Cohort(), steps, module)
    rounds = simulated.run(simulated.begin(3), Store(), 3)
    next(rounds)
    next(rounds)
    with Operators() as operators:
        next(rounds)
    return operators.calls


@pytest.mark.parametrize(
    ("executor", "bound"),
    [(Cohort(), 350), (Sequential(), 260)],
    ids=["cohort", "sequential"],
)
def test_a_round_of_one_client_and_one_step_is_a_few_hundred_operators(executor, bound):
    assert counted(1, executor=executor).total() <= bound


def test_a_client_more_is_hardly_an_operator_more():
    few = counted(64).total()
    many = counted(192).total()
    # its random order is one; the rest is a sixteenth of the sums of its block
    assert (many - few) / 128 <= 2.5


@pytest.mark.parametrize("clients", [1, 48])
def test_a_local_step_more_is_about_a_hundred_operators_however_many_clients(clients):
    short = counted(clients, steps=1).total()
    long = counted(clients, steps=5).total()
    # every step is a new pass here: one random order a client
    assert (long - short) / 4 - clients <= 125


@pytest.mark.parametrize(
    ("module", "executor", "bound"),
    [(layer, Cohort(), 255), (network, Cohort(), 295), (pictures, Sequential(), 242)],
    ids=["linear", "network", "pictures"],
)
def test_a_local_step_of_the_flagship_is_a_few_hundred_operators(module, executor, bound):
    settings = {"method": "fedpace", "executor": executor, "module": module}
    short = counted(1, steps=1, **settings).total()
    long = counted(1, steps=17, **settings).total()
    assert (long - short) / 16 <= bound


@pytest.mark.parametrize("executor", [Cohort(), Sequential()], ids=["cohort", "sequential"])
@pytest.mark.parametrize(
    ("method", "bound"),
    # one look a trial, and one after the last: a search has to know whether it is over
    [("fedavg(step=0.1)", 0), ("fedpace", 1.5)],
)
def test_a_step_on_another_device_does_not_wait_for_it(method, bound, executor, monkeypatch):
    monkeypatch.setattr(looks, "AT_HAND", frozenset())
    short = counted(1, method, executor, steps=1)[READ]
    long = counted(1, method, executor, steps=17)[READ]
    assert (long - short) / 16 <= bound


@pytest.mark.parametrize("method", ["fedavg(step=0.1)", "fedpace", "fedsls"])
def test_what_is_done_without_looking_has_the_same_bits(method, monkeypatch):
    def learnt():
        simulated = simulation(3, method, Cohort(), 9, network)
        *_, (server, _) = simulated.run(simulated.begin(3), Store(), 3)
        return server.x

    looking = learnt()
    monkeypatch.setattr(looks, "AT_HAND", frozenset())
    assert torch.equal(looking, learnt())
