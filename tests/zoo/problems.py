"""A small federated task that every method can be run on."""

from __future__ import annotations

import torch

from fedstep.algorithm import Algorithm
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Executor, Sequential, Store, Task
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.spec import methods

SIZES = (7, 12, 3, 20, 9, 15)
NAMES = sorted(methods())


def federation(dtype: torch.dtype = torch.float64) -> Federation:
    """Six unequal clients with three classes in five dimensions."""
    g = torch.Generator().manual_seed(7)
    centres = torch.randn(3, 5, generator=g, dtype=torch.float64)
    clients = []
    for n in SIZES:
        y = torch.randint(3, (n,), generator=g)
        clients.append(
            ((centres[y] + 0.7 * torch.randn(n, 5, generator=g, dtype=torch.float64)).to(dtype), y)
        )
    return Federation.of(clients)


def model(dtype: torch.dtype = torch.float64) -> ModuleModel:
    """A network with one hidden layer, the same every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        net = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))
    return ModuleModel(net.to(dtype))


def simulation(
    algorithm: Algorithm,
    executor: Executor | None = None,
    seed: int = 5,
    plan: Plan | None = None,
    per_round: int = 4,
) -> Simulation:
    task = Task(algorithm, model(), federation(), plan or Plan(batch=4, steps=5), seed)
    return Simulation(task, per_round, executor=executor or Sequential())


def final(sim: Simulation, rounds: int = 3) -> torch.Tensor:
    """The server's point after some rounds."""
    *_, (server, _) = sim.run(sim.begin(rounds), Store(), rounds)
    return server.x
