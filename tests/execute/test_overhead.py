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

from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.spec import build


class Operators(TorchDispatchMode):
    """Counts what reaches torch's dispatcher, views and backward passes included."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls[str(function)] += 1
        return function(*args, **(kwargs or {}))


def counted(clients, method="fedavg(step=0.1)", executor=None, steps=1) -> Counter[str]:
    """The operators of the third round; the first two may do what is done once."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(4 * clients, 3, generator=draw)
    y = torch.randint(2, (4 * clients,), generator=draw)
    federation = Federation.of(list(zip(x.split(4), y.split(4), strict=True)))
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    task = Task(build(method), ModuleModel(module), federation, Plan(batch=4, steps=steps))
    simulation = Simulation(task, clients, executor=executor or Cohort())
    rounds = simulation.run(simulation.begin(3), Store(), 3)
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
