"""Where methods end when clients differ: f_i(x) = 1/2 (x - b_i)' Q_i (x - b_i), all clients, exact gradients, five local steps.

FedAvg's fixed point is not the minimum of the mean function; a correction that works has the minimum as its fixed point.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fedstep import zoo
from fedstep.corrections.trusted_control import TrustedControl
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Store, Task
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.steps.search import LineSearch

Q = torch.tensor(
    [[[1.0, 0.0], [0.0, 3.0]], [[4.0, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]]],
    dtype=torch.float64,
)
B = torch.tensor([[2.0, 0.0], [-1.0, 1.0], [0.0, -2.0]], dtype=torch.float64)
MINIMUM = torch.linalg.solve(Q.sum(0), torch.einsum("kij,kj->i", Q, B))
FIVE = Plan(1, 5, order=InOrder())


def quadratic(x, batch):
    gap = x - batch.targets
    return 0.5 * torch.einsum("bi,bij,bj->b", gap, batch.inputs, gap)


def distance(algorithm, rounds, copies=(1, 1, 1), plan=FIVE, per_round=3):
    """|x - minimum| after some rounds; a client with m copies of its sample takes m steps an epoch."""
    clients = [(Q[[i] * m], B[[i] * m]) for i, m in enumerate(copies)]
    model = FunctionModel(quadratic, torch.zeros(2, dtype=torch.float64))
    simulation = Simulation(
        Task(algorithm, model, Federation.of(clients), plan), per_round, executor=Cohort()
    )
    *_, (server, _) = simulation.run(simulation.begin(rounds), Store(), rounds)
    return float((server.x - MINIMUM).norm())


def test_fedavg_and_fedprox_stop_elsewhere():
    for algorithm in (
        zoo.fedavg(0.1),
        zoo.fedprox(0.1, 0.5),
        replace(zoo.fedsls(), server=zoo.fedavg().server),
    ):
        assert distance(algorithm, 60) > 0.02


@pytest.mark.parametrize(
    "algorithm",
    [
        zoo.scaffold(0.1),
        zoo.scaffold(0.1, option=1),
        zoo.feddyn(0.1, 0.5),
        zoo.fedlin(0.1),
        zoo.fedlin(0.4, divide=True),
        zoo.feddane(0.1, 0.5),
        zoo.mime(0.1, 0.5),
        replace(zoo.fedavg(0.1), correction=TrustedControl()),
    ],
    ids=[
        "scaffold II",
        "scaffold I",
        "feddyn",
        "fedlin",
        "fedlin divided",
        "feddane",
        "mime",
        "trusted control",
    ],
)
def test_corrections_end_at_the_minimum(algorithm):
    assert distance(algorithm, 100) < 1e-6


def test_scaffold_with_a_line_search_ends_at_the_minimum():
    algorithm = zoo.scaffold()
    searched = replace(algorithm, local=replace(algorithm.local, step=LineSearch(max_step=0.5)))
    assert distance(searched, 100) < 1e-6


def test_scaffold_ends_at_the_minimum_when_two_of_three_clients_take_part():
    assert distance(zoo.scaffold(0.1), 120, per_round=2) < 1e-6
    assert distance(zoo.fedavg(0.1), 60, per_round=2) > 0.02


def test_trusted_control_ends_at_the_minimum_when_two_of_three_clients_take_part():
    algorithm = replace(zoo.fedavg(0.1), correction=TrustedControl())
    assert distance(algorithm, 200, per_round=2) < 1e-6


def test_fednova_ends_near_the_minimum_where_clients_with_more_steps_pull_fedavg_away():
    epochs = Plan(1, None, 1, InOrder())
    plain, nova = (distance(m(0.02), 60, (2, 5, 20), epochs) for m in (zoo.fedavg, zoo.fednova))
    assert plain > 0.5
    assert nova < plain / 3
