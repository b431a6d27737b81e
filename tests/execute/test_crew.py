"""Jobs handed out to workers that come late, answer out of order and die: the same bits."""

from __future__ import annotations

import logging
from collections import Counter, deque
from dataclasses import dataclass, field
from random import Random

import pytest
import torch

from fedstep.core.errors import InputError
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.execute import crew as module
from fedstep.execute.base import Executor, Local, blame
from fedstep.execute.crew import Crew, dispatch
from fedstep.execute.pieces import Died, Failed, Joined, PieceFinished
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.spec import build

SIZES = (7, 12, 3, 20, 9, 15, 31, 4)


class FakeCrew(Crew[int]):
    """Workers that are numbers; what they answer, when, and whether they live is drawn from a seed."""

    def __init__(self, task: Task, inner: Local, workers: int, seed: int = 0, **odds: float):
        super().__init__(workers)
        self.task = task
        self.inner = inner
        self.random = Random(seed)
        self.odds = odds
        self.sent = None
        self.deadly = frozenset()
        self.deaths = Counter()
        self.waiting = deque()
        self.hires = 0
        self.buried = []
        self.most = 0

    def happens(self, event: str) -> bool:
        return self.random.random() < self.odds.get(event, 0.0)

    def dies(self, piece) -> bool:
        """Whether the worker dies at this piece; never three times at the same client."""
        places = [(piece.round, piece.probe, client) for client in piece.clients]
        if not self.happens("death") or any(self.deaths[place] == 2 for place in places):
            return False
        self.deaths.update(places)
        return True

    def hire(self) -> int:
        self.hires += 1
        self.waiting.append(Joined(self.hires))
        self.most = max(self.most, len(self.hired) + 1)
        return self.hires

    def give(self, worker, piece):
        assert worker in self.hired
        if self.deadly & set(piece.clients) or self.dies(piece):
            self.waiting.append(Died(worker, "exit code -9"))
            return
        updates = []
        try:
            for clients, memory in zip(piece.jobs, piece.memories, strict=True):
                with blame(clients, piece.round):
                    update = self.inner.run(self.task, self.sent, clients, memory, piece.probe)
                    updates.append(update)
        except Exception as error:
            self.waiting.append(Failed(worker, error))
        else:
            self.waiting.append(PieceFinished(worker, updates, seconds=1.0))

    def answers(self, timeout):
        if not self.waiting or self.happens("silence"):
            return []
        if self.happens("death at rest") and self.free:
            return [Died(self.random.choice(self.free), "exit code 1")]
        if self.happens("disorder"):
            self.random.shuffle(self.waiting)
        count = self.random.randint(1, len(self.waiting))
        return [self.waiting.popleft() for _ in range(count)]

    def bury(self, worker):
        self.buried.append(worker)
        if self.happens("ghost"):  # it was given up, and answers all the same
            self.waiting.append(PieceFinished(worker, []))


@dataclass
class Fake(Executor):
    """An executor over such a crew."""

    inner: Local
    workers: int
    seed: int = 0
    odds: dict = field(default_factory=dict)
    crew: FakeCrew | None = None

    def __call__(self, task, sent, cohort, store, probe=False):
        if self.crew is None:
            self.crew = FakeCrew(task, self.inner, self.workers, self.seed, **self.odds)
        self.crew.sent = sent
        yield from dispatch(self.crew, self.inner, task, sent, cohort, store, probe)


def loss(x, batch):
    return (batch.inputs @ x - batch.targets) ** 2


def broken(x, batch):
    raise ValueError("no loss for this one")


def task(algorithm: str, function=loss) -> Task:
    g = torch.Generator().manual_seed(7)
    clients = []
    for n in SIZES:
        clients.append((torch.randn(n, 5, generator=g), torch.randn(n, generator=g)))
    model = FunctionModel(function, torch.zeros(5))
    return Task(build(algorithm), model, Federation.of(clients), Plan(4, None, 1), 5)


def run(algorithm: str, executor: Executor):
    store = Store()
    sim = Simulation(task(algorithm), len(SIZES), executor=executor)
    rows = []
    for server, row in sim.run(sim.begin(2), store, 2):
        x = server.x
        rows.append({**row.to_dict(), "seconds": 0.0})
    return x, store, str(rows)


ODDS = {
    "calm": {},
    "out of order": {"disorder": 1.0},
    "late": {"silence": 0.5, "disorder": 0.5},
    "deaths": {"death": 0.3, "disorder": 0.5, "silence": 0.2},
    "deaths at rest": {"death at rest": 0.2, "disorder": 0.5},
    "ghosts": {"death": 0.3, "ghost": 1.0, "disorder": 0.5},
}


@pytest.mark.parametrize("odds", ODDS)
@pytest.mark.parametrize("inner", [Sequential(), Cohort(2)], ids=repr)
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "fedlin"])
def test_whatever_happens_to_workers_the_bits_are_those_of_one_process(algorithm, inner, odds):
    x, store, rows = run(algorithm, inner)
    for seed in range(3):
        other_x, other_store, other_rows = run(algorithm, Fake(inner, 3, seed, ODDS[odds]))
        assert torch.equal(other_x, x)
        assert other_rows == rows
        assert other_store.memories.keys() == store.memories.keys()
        for client, memory in store.memories.items():
            for name, value in memory.items():
                assert torch.equal(other_store.memories[client][name], value)


@pytest.mark.parametrize("odds", [{}, {"disorder": 1.0}, {"death": 1.0}], ids=str)
def test_pieces_of_several_jobs_give_the_same_bits(odds, monkeypatch):
    monkeypatch.setattr(module, "PIECES", 1)
    x, _, rows = run("scaffold", Sequential())
    other_x, _, other_rows = run("scaffold", Fake(Sequential(), 2, odds=odds))
    assert torch.equal(other_x, x)
    assert other_rows == rows


@pytest.mark.parametrize("odds", ODDS)
def test_updates_that_are_large_do_not_pile_up_and_the_bits_are_the_same(odds, monkeypatch):
    x, _, rows = run("scaffold", Sequential())
    monkeypatch.setattr(module, "WAITING", 1)  # byte: as many updates may wait as there are workers
    waiting = []
    inherited = module._Round._listen

    def listen(self):
        inherited(self)
        waiting.append(len(self.done))

    monkeypatch.setattr(module._Round, "_listen", listen)
    for seed in range(3):
        other_x, _, other_rows = run("scaffold", Fake(Sequential(), 3, seed, ODDS[odds]))
        assert torch.equal(other_x, x)
        assert other_rows == rows
    assert 1 <= max(waiting) <= 3


def once(executor: Fake, function=loss, prepare=lambda crew: None):
    """One round over this executor; the crew is prepared before."""
    work = task("fedavg", function)
    sent = work.algorithm.broadcast(work.algorithm.init(work.model.init(), 1))
    executor.crew = FakeCrew(work, executor.inner, executor.workers, executor.seed, **executor.odds)
    prepare(executor.crew)
    return list(executor(work, sent, range(len(SIZES)), Store()))


@pytest.mark.parametrize("pieces", [1, 8])
@pytest.mark.parametrize(
    ("inner", "clients"), [(Sequential(), "client 3"), (Cohort(2), "clients 2, 3")], ids=repr
)
def test_a_job_that_kills_three_workers_names_its_clients(inner, clients, pieces, monkeypatch):
    monkeypatch.setattr(module, "PIECES", pieces)  # in pieces of several jobs, or of one
    executor = Fake(inner, 2)

    def prepare(crew):
        crew.deadly = frozenset([3])

    with pytest.raises(InputError, match=rf"^{clients}: its worker died 3 times \(exit code -9\)"):
        once(executor, prepare=prepare)
    assert len(executor.crew.buried) == executor.crew.hires  # and nobody is left


def test_what_a_client_raises_arrives_with_its_name_and_ends_the_crew():
    executor = Fake(Sequential(), 2)
    with pytest.raises(ValueError, match="no loss for this one") as caught:
        once(executor, broken)
    assert caught.value.__notes__[0].startswith("in round 0, client ")
    assert executor.crew.hired == executor.crew.free == []


@pytest.mark.parametrize(("workers", "hired"), [(3, 3), (8, 8), (500, 8)])
def test_there_are_never_more_workers_than_jobs(workers, hired):
    executor = Fake(Sequential(), workers)
    assert len(once(executor)) == len(SIZES)
    assert executor.crew.most == executor.crew.hires == hired


def test_workers_that_never_get_as_far_as_a_job_are_not_hired_for_ever():
    executor = Fake(Sequential(), 2)

    def prepare(crew):
        crew.answers = lambda timeout: [Died(crew.hired[0], "exit code 1")]

    with pytest.raises(InputError, match=r"6 workers died before they had anything to do"):
        once(executor, prepare=prepare)


def test_a_line_says_once_who_is_being_waited_for(caplog):
    executor = Fake(Sequential(), 1)

    def prepare(crew):
        answers = crew.answers
        silent = deque([False, True, True, True])
        crew.answers = lambda timeout: [] if silent and silent.popleft() else answers(timeout)

    with caplog.at_level(logging.WARNING, "fedstep"):
        once(executor, prepare=prepare)
    (line,) = caplog.messages
    assert line == "round 0: no answer for 60 s, waiting for client 6 in 1"


def test_a_line_says_that_no_worker_has_joined(caplog):
    executor = Fake(Sequential(), 1)

    def prepare(crew):
        answers = crew.answers
        silent = deque([True])
        crew.answers = lambda timeout: [] if silent and silent.popleft() else answers(timeout)

    with caplog.at_level(logging.WARNING, "fedstep"):
        once(executor, prepare=prepare)
    assert caplog.messages == ["round 0: no answer for 60 s, waiting for the first worker"]
