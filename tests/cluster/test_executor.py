"""Rounds on a Ray cluster: the bits of one process, whatever dies."""

from __future__ import annotations

import os
import signal
import sys

import pytest
import ray
import torch
from fakes import PLAN, SEED, clients, model

from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.data.federation import Federation
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.execute.ray import Ray
from fedstep.execute.ray_session import RaySession
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.spec import build

# workers do not find this file: its classes and functions are sent as they are
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One cluster for all tests: it takes seconds to start. It is ended by whoever owns it."""
    owner = Ray(Sequential(), workers=2)
    owner._session = RaySession.open(None)
    yield
    owner.close()
    assert not ray.is_initialized()
    assert "RAY_AUTH_TOKEN_PATH" not in os.environ


def run(method, executor, rounds=2):
    task = Task(build(method), model(), Federation.of(clients()), PLAN, SEED)
    simulation = Simulation(task, 6, executor=executor)
    store = Store()
    rows = []
    with executor:
        for server, row in simulation.run(simulation.begin(rounds), store, rounds):
            x = server.x
            rows.append({**row.to_dict(), "seconds": 0.0})
    return x, store.memories, str(rows)


def assert_same(one, other):
    assert torch.equal(one[0], other[0])
    assert one[2] == other[2]
    assert one[1].keys() == other[1].keys()
    for client, memory in one[1].items():
        for name, value in memory.items():
            assert torch.equal(value, other[1][client][name])


@pytest.mark.parametrize(
    ("method", "inner"),
    [
        ("fedexpsls", Cohort(2)),
        ("scaffold", Sequential()),
        ("scaffold", Cohort(2)),
        ("fedlin", Sequential()),
    ],
    ids=str,
)
def test_the_bits_are_those_of_one_process(method, inner):
    assert_same(run(method, inner), run(method, Ray(inner, workers=2)))


def loss(x, batch):
    return (batch.inputs @ x - batch.targets) ** 2


class Deadly:
    """Kills its worker when it first sees the sample that holds `mark`, or always."""

    def __init__(self, folder, always, leave=False):
        self.flag = str(folder / "died")
        self.always = always
        self.leave = leave  # by Python's own way out, and not by a signal

    def __call__(self, x, batch):
        if bool((batch.targets == 3.0).any()) and (self.always or not os.path.exists(self.flag)):
            open(self.flag, "w").close()
            if self.leave:
                sys.exit(1)
            os.kill(os.getpid(), signal.SIGKILL)
        return loss(x, batch)


def linear_task(function):
    data = []
    for k in range(4):
        g = torch.Generator().manual_seed(k)
        data.append((torch.randn(6, 5, generator=g), torch.full((6,), float(k))))
    return Task(build("fedavg"), _model(function), Federation.of(data), PLAN, SEED)


def _model(function):
    made = FunctionModel(function, torch.zeros(5))
    # examined here, the function would end this process
    made.traits = FunctionModel(loss, torch.zeros(5)).examined(_batch()).traits
    return made


def _batch():
    inputs = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    return Batch((inputs, torch.zeros(3)), torch.tensor(1.0), torch.tensor(0))


def one_round(task, executor):
    simulation = Simulation(task, 4, executor=executor)
    with executor:
        ((server, _),) = simulation.run(simulation.begin(1), Store(), 1)
    return server.x


def test_a_dead_worker_is_replaced_and_its_job_begun_anew(tmp_path):
    x = one_round(linear_task(loss), Sequential())
    other = one_round(linear_task(Deadly(tmp_path, always=False)), Ray(Sequential(), workers=2))
    assert (tmp_path / "died").exists()
    assert torch.equal(other, x)


@pytest.mark.parametrize("leave", [False, True], ids=["killed", "sys.exit"])
def test_a_client_that_kills_three_workers_is_named(tmp_path, leave):
    with pytest.raises(InputError, match=r"^client 3: its worker died 3 times"):
        one_round(linear_task(Deadly(tmp_path, always=True, leave=leave)), Ray(Sequential(), 2))


def broken(x, batch):
    raise ValueError("no loss for this one")


def test_what_a_client_raises_arrives_with_its_name():
    with pytest.raises(ValueError, match="no loss for this one") as caught:
        one_round(linear_task(broken), Ray(Sequential(), workers=1))
    assert caught.value.__notes__[0].startswith("in round 0, client ")


def test_more_cpus_than_there_are_is_one_line_after_patience():
    with pytest.raises(InputError, match="no worker was ready for 1 s; 1 workers of 10000 CPUs"):
        one_round(linear_task(loss), Ray(Sequential(), workers=1, cpus=10000, patience=1.0))


HERE = clients()
OTHER = clients((3, 4, 5, 6, 7, 8))


def load_here():
    return Federation.of(HERE)


def load_other():
    return Federation.of(OTHER)


def test_workers_that_load_the_data_themselves_come_to_the_same_bits():
    assert_same(
        run("scaffold", Sequential()), run("scaffold", Ray(Sequential(), 2, load=load_here))
    )


def test_other_data_on_a_worker_are_refused():
    with pytest.raises(InputError, match="a worker has other data than the driver"):
        run("scaffold", Ray(Sequential(), 1, load=load_other))
