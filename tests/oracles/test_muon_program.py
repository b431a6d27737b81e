"""Muon on clients, against the recorded program of FedMuon (its optimiser, run in float64 in the place of bfloat16)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from programs import HERE, close
from torch import nn

from fedstep import zoo
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Executor, Sequential, Store, Task
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.server.sampling import Given

EXECUTORS = pytest.mark.parametrize("executor", [Sequential(), Cohort()])


class Net(nn.Module):
    """A filter with four axes, a tall matrix, a wide one, and vectors between them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 2)
        self.lin = nn.Linear(8, 9)
        self.out = nn.Linear(9, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.conv(x)).flatten(1)
        return self.out(torch.tanh(self.lin(hidden)))


@pytest.fixture(scope="module")
def recorded() -> Any:
    return json.loads((HERE / "extracts" / "muon_program.json").read_text())


def simulation(recorded: Any, algorithm: Any, steps: int, executor: Executor) -> Simulation:
    net = Net().double()
    start = {
        name: torch.tensor(value, dtype=torch.float64) for name, value in recorded["start"].items()
    }
    net.load_state_dict(start)
    x = torch.tensor(recorded["data"]["X"], dtype=torch.float64)
    y = torch.tensor(recorded["data"]["y"])
    data = Federation.of([(x, y)])
    plan = Plan(recorded["settings"]["batch"], steps, order=InOrder())
    return Simulation(
        Task(algorithm, ModuleModel(net), data, plan), 1, Given(((0,),) * 2), executor
    )


def ends(sim: Simulation, rounds: int) -> list[torch.Tensor]:
    return [server.x for server, _ in sim.run(sim.begin(rounds), Store(), rounds)]


@EXECUTORS
def test_local_muon_walks_as_the_program_does(recorded, executor):
    points = recorded["runs"]["local_muon"]
    for steps, point in enumerate(points, start=1):
        sim = simulation(recorded, zoo.local_muon(clip=0.5), steps, executor)
        close(ends(sim, 1)[0], point, 1e-10)


@EXECUTORS
def test_fedmuon_carries_its_momentum_and_the_last_round_s_way_over(recorded, executor):
    first, second = recorded["runs"]["fedmuon"]
    x_1, x_2 = ends(simulation(recorded, zoo.fedmuon(clip=0.5), 4, executor), 2)
    close(x_1, first[-1], 1e-10)
    close(x_2, second[-1], 1e-10)


def test_the_recorded_run_depends_on_what_is_carried(recorded):
    method = zoo.fedmuon(clip=0.5)
    clip, muon = method.local.direction.parts
    forgetful = replace(method.local.direction, parts=(clip, replace(muon, carried=False)))
    other = replace(method, local=replace(method.local, direction=forgetful))
    _, x_2 = ends(simulation(recorded, other, 4, Sequential()), 2)
    assert not torch.allclose(
        x_2, torch.tensor(recorded["runs"]["fedmuon"][1][-1]).double(), atol=1e-4
    )
