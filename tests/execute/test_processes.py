"""Processes within a round: the bits of one process, whatever happens to the workers."""

from __future__ import annotations

import logging
import mmap
import multiprocessing
import os
import pickle
import signal
import time
import weakref
from dataclasses import replace
from functools import partial

import pytest
import torch

from fedstep import zoo
from fedstep.core.errors import InputError
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Processes, Sequential, Store, Task, wire
from fedstep.execute import crew as crew_module
from fedstep.execute.children import is_stopped
from fedstep.execute.crew import LOG, largest_first
from fedstep.execute.wire import receive, unpack_message
from fedstep.models.function import FunctionModel
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.spec import build


def federation() -> Federation:
    g = torch.Generator().manual_seed(7)
    sizes = (7, 12, 3, 20, 9, 15, 31, 4)
    return Federation.of(
        [(torch.randn(n, 5, generator=g), torch.randint(3, (n,), generator=g)) for n in sizes]
    )


def simulation(algorithm, executor, per_round=6) -> Simulation:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        net = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))
    return Simulation(
        Task(algorithm, ModuleModel(net), federation(), Plan(4, 5), 5), per_round, executor=executor
    )


def run(algorithm, executor, rounds=3):
    sim, store = simulation(algorithm, executor), Store()
    steps = list(sim.run(sim.begin(rounds), store, rounds))
    rows = [{**row.to_dict(), "seconds": 0.0} for _, row in steps]
    return steps[-1][0], store, rows


@pytest.mark.parametrize("inner", [Sequential(), Cohort(2)], ids=["sequential", "cohort"])
@pytest.mark.parametrize("name", ["fedavg", "fedexpsls(carry=True)", "fedadam"])
def test_any_number_of_workers_gives_the_same_bits(name, inner):
    alone, kept, rows = run(build(name), inner)
    for workers in (1, 2, 3):
        with Processes(inner, workers) as many:
            server, store, others = run(build(name), many)
        assert torch.equal(server.x, alone.x)
        assert str(others) == str(rows)
        assert store.memories.keys() == kept.memories.keys()
        for client, memory in kept.memories.items():
            assert all(torch.equal(memory[k], store.memories[client][k]) for k in memory)


def test_largest_clients_are_handed_out_first():
    sim = simulation(zoo.fedavg(), None)
    task = replace(sim.task, plan=Plan(4, None, 1))
    pieces = largest_first(task, [[c] for c in range(8)], workers=2)
    order = [number for piece in pieces for number in piece]
    lengths = [task.plan.length(task.federation.size(c)) for c in order]
    assert lengths == sorted(lengths, reverse=True)
    assert sorted(order) == list(range(8))


@pytest.mark.parametrize("cohort", [8, 40])
def test_the_updates_that_the_driver_holds_do_not_grow_with_the_cohort(cohort, monkeypatch):
    net = torch.nn.Linear(5, 50_000)  # 1.2 MB
    clients = [(torch.ones(1, 5), torch.zeros(1, dtype=torch.int64))] * 40
    work = Task(zoo.fedavg(), ModuleModel(net), Federation.of(clients), Plan(1, 1), 5)
    monkeypatch.setattr(crew_module, "WAITING", 4 * work.update_bytes)
    alive = weakref.WeakSet()
    most = []
    own_pages = wire._room

    class Counted(mmap.mmap):  # a built-in class has no weak references
        pass

    def room(size):
        if size < wire.LARGE:
            return own_pages(size)
        pages = Counted(-1, size)
        alive.add(pages)
        most.append(len(alive))
        return pages

    monkeypatch.setattr(wire, "_room", room)
    with Processes(Sequential(), 2) as executor:
        sim = Simulation(work, cohort, executor=executor)
        for _ in sim.run(sim.begin(2), Store(), 2):
            pass
    assert len(most) == 2 * cohort  # every delta came into pages of its own
    # four that may be begun from the one that is waited for, and the first one as the sum so far
    assert max(most) <= 5


def _deadly(marker, times, x, batch):
    """A loss that kills its process in the hands of the client whose targets are 3, the first `times` times."""
    if (
        float(batch.targets[0]) == 3.0
        and len(os.listdir(marker)) < times
        and multiprocessing.parent_process()
    ):
        (marker / str(time.monotonic_ns())).write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return (batch.inputs @ x - batch.targets) ** 2


def lethal(tmp_path, times, workers=2):
    clients = [(torch.eye(2), torch.full((2,), float(i))) for i in range(6)]
    model = FunctionModel(partial(_deadly, tmp_path, times), torch.zeros(2))
    task = Task(zoo.fedavg(0.1), model, Federation.of(clients), Plan(2, 2), 5)
    executor = Sequential() if workers == 0 else Processes(Sequential(), workers)
    sim = Simulation(task, 6, executor=executor)
    try:
        *_, (server, _) = sim.run(sim.begin(2), Store(), 2)
    finally:
        if isinstance(executor, Processes):
            executor.close()
    return server.x


def test_a_dead_worker_is_replaced_and_its_clients_are_run_again(tmp_path):
    end = lethal(tmp_path, 2)
    assert len(os.listdir(tmp_path)) == 2
    assert torch.equal(end, lethal(tmp_path, 0, workers=0))
    assert not multiprocessing.active_children()


def test_a_client_that_kills_every_worker_is_named(tmp_path):
    with pytest.raises(InputError, match=r"client 3: its worker died 3 times .*fewer workers"):
        lethal(tmp_path, 99)
    assert not multiprocessing.active_children()


def _broken(x, batch):
    if float(batch.targets[0]) == 2.0:
        raise ValueError("no loss for this one")
    return (batch.inputs @ x - batch.targets) ** 2


def test_what_a_client_raises_arrives_with_its_name():
    clients = [(torch.eye(2), torch.full((2,), float(i))) for i in range(4)]
    task = Task(
        zoo.fedavg(0.1), FunctionModel(_broken, torch.zeros(2)), Federation.of(clients), Plan(2, 1)
    )
    with (
        Processes(Sequential(), 2) as many,
        pytest.raises(ValueError, match="no loss for this one") as caught,
    ):
        list(
            Simulation(task, 4, executor=many).run(
                task.algorithm.init(torch.zeros(2), 1), Store(), 1
            )
        )
    assert "in round 0, client 2" in caught.value.__notes__


def test_another_task_gets_other_workers():
    with Processes(Sequential(), 2) as many:
        first, _, _ = run(zoo.fedavg(0.1), many)
        second, _, _ = run(zoo.fedavg(0.5), many)
    assert torch.equal(first.x, run(zoo.fedavg(0.1), Sequential())[0].x)
    assert torch.equal(second.x, run(zoo.fedavg(0.5), Sequential())[0].x)


def test_a_round_that_is_given_up_leaves_nothing_behind():
    with Processes(Sequential(), 2) as many:
        sim = simulation(zoo.fedavg(0.1), many)
        updates = many(sim.task, sim.task.algorithm.broadcast(sim.begin(1)), [0, 1, 2, 3], Store())
        next(updates)
        updates.close()
        assert not multiprocessing.active_children()
        assert torch.equal(run(zoo.fedavg(0.1), many)[0].x, run(zoo.fedavg(0.1), Sequential())[0].x)


def test_workers_must_be_positive():
    with pytest.raises(InputError, match="workers=0"):
        Processes(Sequential(), 0)


def _stopping(marker, x, batch):
    """A loss that stops its process, once."""
    if not marker.exists() and multiprocessing.parent_process():
        marker.write_text("")
        os.kill(os.getpid(), signal.SIGSTOP)
    return (batch.inputs @ x - batch.targets) ** 2


class Waker(logging.Handler):
    """Wakes the worker that a line names, once it is stopped."""

    lines = ()

    def emit(self, record):
        self.lines += (record.getMessage(),)
        (worker,) = multiprocessing.active_children()
        while not is_stopped(worker.pid):
            time.sleep(0.01)
        os.kill(worker.pid, signal.SIGCONT)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="tells a process that is stopped")
def test_a_line_names_the_worker_that_is_stopped_and_the_run_goes_on(tmp_path):
    clients = [(torch.eye(2), torch.ones(2))]
    model = FunctionModel(partial(_stopping, tmp_path / "stopped"), torch.zeros(2))
    task = Task(zoo.fedavg(0.1), model, Federation.of(clients), Plan(2, 2), 5)
    waker = Waker()
    LOG.addHandler(waker)
    try:
        with Processes(Sequential(), 1, patience=0.1) as one:
            sim = Simulation(task, 1, executor=one)
            *_, (server, _) = sim.run(sim.begin(1), Store(), 1)
    finally:
        LOG.removeHandler(waker)
    (line,) = waker.lines
    assert line.startswith("round 0: no answer for 0.1 s, waiting for client 0 in process ")
    sim = Simulation(task, 1, executor=Sequential())
    *_, (alone, _) = sim.run(sim.begin(1), Store(), 1)
    assert torch.equal(server.x, alone.x)


def _slow_then_stopping(marker, x, batch):
    """A loss that is waited for, and then stops its process, once."""
    if not marker.exists() and multiprocessing.parent_process():
        # until a line has named this process as slow
        while not marker.with_name("named").exists():
            time.sleep(0.01)
        marker.write_text("")
        os.kill(os.getpid(), signal.SIGSTOP)
    return (batch.inputs @ x - batch.targets) ** 2


class PatientWaker(logging.Handler):
    """Lets the worker go on when it is named, and wakes it when a line says that it is stopped."""

    def __init__(self, named):
        super().__init__()
        self.named = named
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())
        self.named.write_text("")
        if "which is stopped" in record.getMessage():
            (worker,) = multiprocessing.active_children()
            os.kill(worker.pid, signal.SIGCONT)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="tells a process that is stopped")
def test_a_slow_worker_that_is_stopped_later_is_named_once_more(tmp_path):
    clients = [(torch.eye(2), torch.ones(2))]
    model = FunctionModel(partial(_slow_then_stopping, tmp_path / "stopped"), torch.zeros(2))
    task = Task(zoo.fedavg(0.1), model, Federation.of(clients), Plan(2, 2), 5)
    waker = PatientWaker(tmp_path / "named")
    LOG.addHandler(waker)
    try:
        with Processes(Sequential(), 1, patience=0.1) as one:
            sim = Simulation(task, 1, executor=one)
            list(sim.run(sim.begin(1), Store(), 1))
    finally:
        LOG.removeHandler(waker)
    slow, stopped = waker.lines
    assert "which is stopped" not in slow
    assert "which is stopped" in stopped


def _stopped_within_an_answer(pipe, piece):
    """A worker that is stopped between the first and the last byte of its answer."""
    pipe.send_bytes(pickle.dumps([]))
    os.kill(os.getpid(), signal.SIGSTOP)
    pipe.send_bytes(piece)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="tells a process that is stopped")
def test_a_worker_that_is_stopped_within_its_answer_is_noticed():
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    text = pickle.dumps("an answer")
    process = fork.Process(target=_stopped_within_an_answer, args=(theirs, text), daemon=True)
    process.start()
    noticed = []

    def stalled():
        noticed.append(is_stopped(process.pid))
        if noticed[-1]:
            os.kill(process.pid, signal.SIGCONT)

    assert unpack_message(receive(ours, 0.05, stalled)) == "an answer"
    assert noticed[-1]
    process.join()


def test_many_workers_for_few_clients_are_few_processes():
    with Processes(Sequential(), 500) as many:
        server, _, _ = run(zoo.fedavg(0.1), many)
        assert len(multiprocessing.active_children()) == 6
    assert torch.equal(server.x, run(zoo.fedavg(0.1), Sequential())[0].x)


def test_a_worker_that_dies_between_rounds_is_replaced():
    with Processes(Sequential(), 2) as many:
        sim = simulation(zoo.fedavg(0.1), many)
        series = sim.run(sim.begin(2), Store(), 2)
        next(series)
        for worker in multiprocessing.active_children():
            worker.kill()
            worker.join()
        server, _ = next(series)
    assert torch.equal(server.x, run(zoo.fedavg(0.1), Sequential(), rounds=2)[0].x)


def test_a_stopped_worker_does_not_keep_its_pool_from_closing():
    with Processes(Sequential(), 2) as many:
        run(zoo.fedavg(0.1), many)
        for worker in multiprocessing.active_children():
            os.kill(worker.pid, signal.SIGSTOP)
    assert not multiprocessing.active_children()
