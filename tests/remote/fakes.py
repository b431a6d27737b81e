"""A federation in this process: nodes, and a courier that loses, repeats, delays and forges."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import torch

from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Sequential, Store, Task
from fedstep.models.module import ModuleModel
from fedstep.remote.courier import Delivery
from fedstep.remote.deployment import Deployment
from fedstep.remote.enrol import Registry
from fedstep.remote.memories import Memories, MemoriesHere
from fedstep.remote.node import Node
from fedstep.remote.order import RunSettings, client_half, read_order
from fedstep.remote.roster import model_digest
from fedstep.run.simulate import Simulation
from fedstep.spec import build

SIZES = (7, 12, 3, 20, 9, 15)
PLAN = Plan(batch=4, steps=5)
SEED = 5


def clients(sizes=SIZES):
    g = torch.Generator().manual_seed(7)
    centres = torch.randn(3, 5, generator=g)
    made = []
    for n in sizes:
        y = torch.randint(3, (n,), generator=g)
        made.append((centres[y] + 0.7 * torch.randn(n, 5, generator=g), y))
    return made


def model(dtype=torch.float32):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        net = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))
    return ModuleModel(net.to(dtype))


@dataclass
class FakeNode:
    """A node and where its memories are; `held` are the numbers of its clients."""

    held: tuple[int, ...]
    memories: Memories = field(default_factory=MemoriesHere)

    def __post_init__(self):
        everyone = clients()
        self.node = Node(model(), {client: everyone[client] for client in self.held})


@dataclass
class FakeCourier:
    """Carries parcels in this process; `forge` may change what comes back, `lose` drops it."""

    members: dict[int, FakeNode]
    forge: object = None  # (errand, delivery) -> deliveries
    lose: object = None  # (errand, node) -> bool: the order does not arrive
    random: Random = field(default_factory=lambda: Random(0))
    exchanges: list = field(default_factory=list)
    waited: float = 0.0

    def nodes(self):
        return list(self.members)

    def exchange(self, errand, parcels, timeout):
        self.exchanges.append((errand, len(parcels)))
        deliveries = []
        for number, parcel in parcels.items():
            if number not in self.members:
                continue
            if self.lose is not None and self.lose(errand, number):
                continue
            deliveries += self._delivered(errand, number, parcel)
        self.random.shuffle(deliveries)  # nobody promises an order
        return deliveries

    def wait(self, seconds):
        self.waited += seconds

    def _delivered(self, errand, number, parcel):
        member = self.members[number]
        if errand == "who":
            delivery = Delivery(number, {"who": member.node.who()})
        else:
            delivery = Delivery(number, member.node.work(read_order(parcel), member.memories))
        if self.forge is None:
            return [delivery]
        return self.forge(errand, delivery)


def courier(held=((0, 1), (2,), (3, 4, 5)), **changes):
    members = {100 + k: FakeNode(numbers) for k, numbers in enumerate(held)}
    return FakeCourier(members, **changes)


def deployment(method, carrier, per_round=4, run="ab12", **changes):
    algorithm = build(method)
    server_model = model()
    registry = Registry(carrier, model_digest(server_model), None, timeout=1.0, patience=0.0)
    targets = registry.gather()
    suited = algorithm.suited(server_model, targets)
    if suited.correction.embeds:
        server_model = server_model.embedding()
    settings = RunSettings(run, method, client_half(suited), SEED, PLAN, trace=True)
    return Deployment(suited, server_model, settings, registry, carrier, per_round, **changes)


def simulated(method, rounds=3, per_round=4):
    """The same run by `Sequential` on this machine."""
    task = Task(build(method), model(), Federation.of(clients()), PLAN, SEED)
    simulation = Simulation(task, per_round, executor=Sequential())
    return finished(simulation, rounds)


def finished(source, rounds=3, store=None):
    """The last server, and rows without their seconds."""
    rows = []
    store = Store() if store is None else store
    for server, row in source.run(source.begin(rounds), store, rounds):
        last = server
        rows.append({**row.to_dict(), "seconds": 0.0})
    return last, str(rows)


def same(one, other):
    return (
        torch.equal(one.x, other.x)
        and torch.equal(one.readout, other.readout)
        and one.shared.keys() == other.shared.keys()
        and all(torch.equal(value, other.shared[name]) for name, value in one.shared.items())
    )
