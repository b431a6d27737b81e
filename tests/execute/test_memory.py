"""How many vectors of the model's length live at once, and holes that are given back.

What lives is counted storage by storage where torch makes them: what the system says of a process
depends on its C library, its load and what was done before.
"""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Sequential, Store, Task, heap
from fedstep.execute.heap import Heap
from fedstep.models.module import ModuleModel
from fedstep.run.evaluate import evaluate
from fedstep.run.simulate import Simulation
from fedstep.spec import build


class LiveStorages(TorchDispatchMode):
    """The most bytes that storages of at least `least` bytes had at once, of those made inside."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least
        self.most = 0
        self._sizes: dict[int, int] = {}
        self._seen: list[weakref.ref] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor):
                self._note(value.untyped_storage())
        return result

    def _note(self, storage) -> None:
        number = id(storage)
        if storage.nbytes() < self.least or number in self._sizes:
            return
        self._sizes[number] = storage.nbytes()

        def forget(_, number=number):
            del self._sizes[number]

        self._seen.append(weakref.ref(storage, forget))
        self.most = max(self.most, sum(self._sizes.values()))


def large_model():
    torch.manual_seed(0)
    return nn.Linear(20, 5000)  # the weight is nearly all of it


def vectors(method, clients=6, steps=3, rounds=3) -> float:
    """The most vectors at once, in a run of one client at a time."""
    draw = torch.Generator().manual_seed(0)
    samples = []
    for _ in range(clients):
        x = torch.randn(2, 20, generator=draw)
        samples.append((x, torch.randint(4, (2,), generator=draw)))
    plan = Plan(batch=1, steps=steps)
    task = Task(build(method), ModuleModel(large_model()), Federation.of(samples), plan)
    simulation = Simulation(task, clients, executor=Sequential())
    with LiveStorages(task.update_bytes // 2) as live:
        for _ in simulation.run(simulation.begin(rounds), Store(), rounds):
            pass
    return live.most / task.update_bytes


def test_a_round_needs_five_vectors_however_many_clients_it_has():
    # the model, the sum, a client's point, its gradient, and its direction or its next point
    assert vectors("fedavg(step=0.1)") <= 5
    assert vectors("fedavg(step=0.1)", clients=20) <= 5


def test_the_judge_shares_the_parameters_of_the_model():
    model = ModuleModel(large_model())
    judge = model.evaluating()
    assert judge.module is not model.module
    assert judge.module.weight is model.module.weight
    assert not judge.module.training


def test_an_evaluation_keeps_no_predictions():
    torch.manual_seed(0)
    model = ModuleModel(nn.Linear(2, 100)).evaluating()
    samples = (torch.randn(400, 2), torch.randint(100, (400,)))
    # the predictions of a chunk are 4,000 bytes, and the losses of all samples 3,200
    with LiveStorages(4000) as live:
        evaluate(model, model.init(), samples, chunk=10)
    assert live.most < 10 * 4000


@pytest.fixture
def system(monkeypatch):
    """A process whose size and trims are in our hands."""

    class System:
        resident = 0
        trims = 0

    def trim() -> None:
        System.trims += 1

    monkeypatch.setattr(heap, "resident_bytes", lambda: System.resident)
    monkeypatch.setattr(heap, "trim", trim)
    return System


def test_holes_are_given_back_when_the_process_has_grown(system):
    watched = Heap(vector_bytes=10 * 2**20)
    before = system.trims
    watched.used()
    assert system.trims == before
    system.resident = 200 * 2**20
    watched.used()
    assert system.trims == before + 1
    # what could not be given back is in use: nobody tries again for it
    watched.used()
    assert system.trims == before + 1


def test_small_vectors_are_not_worth_a_look(system):
    watched = Heap(vector_bytes=1000)
    system.resident = 200 * 2**20
    for _ in range(100):
        watched.used()
    assert system.trims == 0


def test_the_system_tells_the_size_of_this_process():
    assert heap.resident_bytes() > 2**20
    heap.trim()


def test_a_system_that_does_not_tell_is_no_error(monkeypatch, tmp_path):
    monkeypatch.setattr(heap, "STATM", tmp_path / "none")
    assert heap.resident_bytes() == 0
