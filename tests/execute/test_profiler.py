"""A profiler counts seconds by kind, and changes nothing in what it looks at."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
import torch

from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Processes, Sequential, Store, Task
from fedstep.execute import profiler as module
from fedstep.execute.profiler import Profiler, TimeProfiler
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.spec import build


@pytest.fixture
def seconds(monkeypatch):
    """A clock that is moved by hand."""
    now = [0.0]
    monkeypatch.setattr(module, "perf_counter", lambda: now[0])

    def pass_by(value):
        now[0] += value

    return pass_by


def test_what_is_charged_inside_another_charge_counts_once(seconds):
    profiler = TimeProfiler()
    with profiler.charge("update"):
        seconds(1.0)
        with profiler.charge("forward"):
            seconds(2.0)
        seconds(4.0)
    assert profiler.drain() == {"update": 5.0, "forward": 2.0}
    assert profiler.drain() == {}


def test_what_is_charged_before_an_error_counts(seconds):
    profiler = TimeProfiler()
    with suppress(KeyError), profiler.charge("data"):
        seconds(3.0)
        raise KeyError
    seconds(9.0)
    assert profiler.drain() == {"data": 3.0}


def test_seconds_of_another_process_are_added():
    profiler = TimeProfiler()
    profiler.merge({"data": 1.0, "idle": 2.0})
    profiler.merge({"data": 0.5})
    assert profiler.drain() == {"data": 1.5, "idle": 2.0}


def task(algorithm: str, profiler: Profiler) -> Task:
    g = torch.Generator().manual_seed(7)
    clients = []
    for n in (7, 12, 3, 20):
        clients.append((torch.randn(n, 25, generator=g), torch.randint(3, (n,), generator=g)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        layer = torch.nn.Linear(25, 3)
    model = ModuleModel(layer)
    return Task(build(algorithm), model, Federation.of(clients), Plan(4, 5), 5, profiler=profiler)


def end(task: Task, executor) -> torch.Tensor:
    with executor:
        sim = Simulation(task, 4, executor=executor)
        *_, (server, _) = sim.run(sim.begin(2), Store(), 2)
    return server.x


@pytest.mark.parametrize(
    "executor", [Sequential(), Cohort(2), Cohort(2, dual=False), Processes(Cohort(2), 2)], ids=repr
)
@pytest.mark.parametrize("algorithm", ["fedsls", "scaffold", "fedlin"])
def test_a_profile_changes_no_bit(algorithm, executor):
    timed = TimeProfiler()
    plain = end(task(algorithm, Profiler()), executor)
    assert torch.equal(end(task(algorithm, timed), executor), plain)
    counted = timed.drain()
    assert {"data", "forward", "backward", "update", "aggregation"} <= counted.keys()
    assert all(value > 0 for value in counted.values())


def test_a_profiled_task_is_known_by_the_same_algorithm():
    plain = task("fedsls", Profiler())
    timed = task("fedsls", TimeProfiler())
    assert repr(timed.algorithm) == repr(plain.algorithm)
    assert repr(replace(timed, seed=9).algorithm) == repr(plain.algorithm)


def test_a_profiled_model_still_has_what_the_model_has():
    model = task("fedsls", Profiler()).model
    wrapped = TimeProfiler().wrap_model(model)
    assert wrapped.dim == model.dim
    assert wrapped.head == model.head
