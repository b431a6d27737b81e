"""A small federated task that every method can be run on."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import torch

from fedstep.algorithm import Algorithm, Server
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


def after_one_round(sim: Simulation, server: Server, store: Store) -> tuple[Server, Store]:
    """The next state; what is given stays as it is."""
    store_after = deepcopy(store)
    ((after, _),) = sim.run(server, store_after, server.round + 1)
    return after, store_after


def rounding_of_a_round(sim: Simulation, server: Server, store: Store, after: Server) -> float:
    """How far one round carries disturbances in the last place of the data; `after` is undisturbed.

    Another order of summation (another executor, another processor) disturbs every operation by as
    little. What that may change is measured where it is compared, not guessed: a line search
    amplifies rounding by more than a constant step, and no tolerance fits all methods. The data are
    disturbed, not the model: DoG measures how far the model is from where it began, and a last
    place there is everything.
    """
    inputs, targets = sim.task.federation.fields
    g = torch.Generator().manual_seed(17)
    largest = 0.0
    for _ in range(2):
        signs = torch.randint(2, inputs.shape, generator=g).to(inputs.dtype) * 2 - 1
        other_inputs = inputs * (1 + signs * torch.finfo(inputs.dtype).eps)
        other_data = replace(sim.task.federation, fields=(other_inputs, targets))
        disturbed = replace(sim, task=replace(sim.task, federation=other_data))
        x = after_one_round(disturbed, server, store)[0].x
        largest = max(largest, float((x - after.x).abs().max()))
    return largest


def assert_same_rounds(reference: Simulation, others: list[Simulation], rounds: int = 3) -> None:
    """Each round of the reference, taken by the others from the same state: equal but for rounding.

    Whole trajectories are not compared: some methods amplify a last place by 1e6 in three rounds,
    on one processor and not on the next.
    """
    server, store = reference.begin(rounds), Store()
    for _ in range(rounds):
        after, store_after = after_one_round(reference, server, store)
        rounding = rounding_of_a_round(reference, server, store, after)
        allowed = 100 * max(rounding, 1e-15)
        # a comparison that allows everything proves nothing: such a round needs another task
        assert allowed < 1e-8
        for other in others:
            after_other, _ = after_one_round(other, server, store)
            assert torch.allclose(after_other.x, after.x, rtol=0, atol=allowed)
        server, store = after, store_after
