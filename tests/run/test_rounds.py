"""The loop over rounds asks for work and is told the sum; whoever does the work, the bits are the same."""

from __future__ import annotations

import weakref
from functools import reduce
from operator import add

import pytest
import torch
from torch import nn

from fedstep import ModuleModel, zoo
from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Sequential, Store, Task
from fedstep.run.rounds import RoundDone, RoundPlan, WorkRequest, fold, rounds
from fedstep.run.simulate import Simulation
from fedstep.server.sampling import Uniform


def task(algorithm, clients=12):
    g = torch.Generator().manual_seed(0)
    data = [
        (torch.randn(6, 4, generator=g), torch.randint(3, (6,), generator=g))
        for _ in range(clients)
    ]
    torch.manual_seed(0)
    return Task(algorithm, ModuleModel(nn.Linear(4, 3)), Federation.of(data), Plan(3, 2), 5)


class Counting(Sequential):
    """Notes how many deltas of a run are alive whenever another one is ready."""

    def __init__(self):
        object.__setattr__(self, "alive", weakref.WeakSet())
        object.__setattr__(self, "most", [])

    def __call__(self, *given, **options):
        for update in super().__call__(*given, **options):
            self.alive.add(update.aggregate.delta)
            self.most.append(len(self.alive))
            yield update


def test_a_round_of_many_clients_holds_few_updates_at_once():
    executor = Counting()
    sim = Simulation(task(zoo.scaffold(), clients=40), 40, executor=executor)
    for _ in sim.run(sim.begin(2), Store(), 2):
        pass
    assert len(executor.most) == 80
    assert (
        max(executor.most) <= 3
    )  # the update at hand, the one before it, and the first one as the sum so far


def test_the_sum_of_many_is_made_in_one_place_and_has_the_bits_of_one_by_one(monkeypatch):
    work = task(zoo.scaffold(), clients=12)
    sent = work.algorithm.broadcast(work.algorithm.init(work.model.init(), 1))
    updates = list(Sequential()(work, sent, range(12), Store()))
    first = updates[0].aggregate.delta.clone()
    one_by_one = reduce(add, [update.aggregate for update in updates])

    new_sums = []
    monkeypatch.setattr(
        Aggregate,
        "__add__",
        lambda *both: new_sums.append(1) or Aggregate._joined(*both, torch.add),
    )
    total = fold(updates).total
    assert len(new_sums) == 1  # for eleven additions
    assert torch.equal(updates[0].aggregate.delta, first)  # what a client sent stays as it was
    assert total.message.keys() == one_by_one.message.keys()
    assert total.message
    for name, value in one_by_one.message.items():
        assert torch.equal(total.message[name], value)
    for name in ("delta", "weight", "norm_sq"):
        assert torch.equal(getattr(total, name), getattr(one_by_one, name))
    assert (total.clients, total.rejected) == (12, 0)


@pytest.mark.parametrize(
    "algorithm",
    [zoo.fedexpsls(), zoo.scaffold(), zoo.fedlin(), zoo.feddane(), zoo.mime()],
    ids=lambda a: type(a.correction).__name__,
)
def test_whoever_answers_the_requests_gets_the_bits_of_the_simulation(algorithm):
    sim = Simulation(task(algorithm), 5)
    states = [server for server, _ in sim.run(sim.begin(3), Store(), 3)]

    work = task(algorithm)
    counts = torch.full((12,), 6)
    plan = RoundPlan(work.algorithm, Uniform(), counts, per_round=5, seed=5)
    store = Store()
    events = rounds(plan, work.algorithm.init(work.model.init(), 3), 3)
    ends = []
    event = next(events)
    while event is not None:
        if isinstance(event, WorkRequest):
            answer = Sequential()(work, event.sent, event.cohort, store, event.probe)
            event = events.send(fold(answer))
            continue
        assert isinstance(event, RoundDone)
        ends.append(event.server)
        event = next(events, None)
    assert [end.round for end in ends] == [1, 2, 3]
    for end, state in zip(ends, states, strict=True):
        assert torch.equal(end.x, state.x)
        assert torch.equal(end.readout, state.readout)


def test_a_request_without_an_answer_is_an_error():
    work = task(zoo.fedavg())
    plan = RoundPlan(work.algorithm, Uniform(), torch.full((12,), 6), per_round=5, seed=5)
    events = rounds(plan, work.algorithm.init(work.model.init(), 1), 1)
    next(events)
    with pytest.raises(TypeError, match="answered with send"):
        next(events)


def test_an_executor_without_updates_is_refused():
    sim = Simulation(task(zoo.fedavg()), 5, executor=lambda *given, **options: iter(()))
    with pytest.raises(InputError, match="returned no update"):
        next(sim.run(sim.begin(1), Store(), 1))
