"""MOON and FedProto in plain torch, from the formulas of the papers, against the library."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional

from fedstep import InputError, zoo
from fedstep.core.types import Batch
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.models.function import FunctionModel
from fedstep.models.module import ModuleModel
from fedstep.models.traits import ModelTraits
from fedstep.run.simulate import Simulation
from fedstep.server.sampling import Given

SIZES, BATCH, K, ETA = (7, 5, 12, 9), 4, 5, 0.2
SCHEDULE = ((0, 1, 2), (2, 3), (0, 1, 2, 3), (1, 3), (0, 2))
EXECUTORS = pytest.mark.parametrize(
    "executor", [Sequential(), Cohort()], ids=["sequential", "cohort"]
)


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3)
        ).double()


def data():
    """Two classes a client; in the fourth round nobody has class 0, and its prototype must last until the fifth."""
    g, classes = torch.Generator().manual_seed(2), torch.tensor([(0, 1), (1, 2), (2, 0), (1, 2)])
    return [
        (torch.randn(n, 3, generator=g).double(), own[torch.randint(2, (n,), generator=g)])
        for n, own in zip(SIZES, classes, strict=True)
    ]


def batches(x, y):
    cut = [(x[k : k + BATCH], y[k : k + BATCH]) for k in range(0, len(y), BATCH)]
    return [cut[k % len(cut)] for k in range(K)]


def flat(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def sgd(net, loss):
    grads = torch.autograd.grad(loss, list(net.parameters()))
    with torch.no_grad():
        for p, g in zip(net.parameters(), grads, strict=True):
            p -= ETA * g


ROW_BY_ROW = ModelTraits(random=False, blocks=False, padding=False)


def mean_of(nets):
    new = copy.deepcopy(nets[0])
    with torch.no_grad():
        for p, *others in zip(new.parameters(), *(n.parameters() for n in nets), strict=True):
            p.copy_(torch.stack(others).mean(0))
    return new


def walk(algorithm, executor, row_by_row=False):
    model = ModuleModel(network())
    if row_by_row:
        model.traits = ROW_BY_ROW
    task = Task(algorithm, model, Federation.of(data()), Plan(BATCH, K, order=InOrder()))
    simulation = Simulation(task, 3, Given(SCHEDULE), executor)
    return [s.x for s, _ in simulation.run(simulation.begin(len(SCHEDULE)), Store(), len(SCHEDULE))]


def assert_same(found, nets):
    for x, net in zip(found, nets, strict=True):
        assert torch.allclose(x, flat(net), rtol=1e-12, atol=1e-12)


def moon(mu, tau):
    """Li et al., 2021, Algorithm 1 and equation (3)."""
    server, last, clients, path = network(), {}, data(), []
    for S in SCHEDULE:
        ends = []
        for i in S:
            net, previous = copy.deepcopy(server), last.get(i, server)
            for x, y in batches(*clients[i]):
                z, z_glob, z_prev = net[:2](x), server[:2](x).detach(), previous[:2](x).detach()
                near = torch.exp(functional.cosine_similarity(z, z_glob) / tau)
                far = torch.exp(functional.cosine_similarity(z, z_prev) / tau)
                sgd(
                    net,
                    functional.cross_entropy(net[2](z), y)
                    + mu * -torch.log(near / (near + far)).mean(),
                )
            last[i] = net
            ends.append(net)
        server = mean_of(ends)
        path.append(server)
    return path


@EXECUTORS
@pytest.mark.parametrize("row_by_row", [False, True])
def test_moon_equals_its_box(executor, row_by_row):
    assert_same(walk(zoo.moon(ETA, 2.0, 0.4), executor, row_by_row), moon(2.0, 0.4))


def fedproto(weight, personal):
    """Tan et al., 2022, Algorithm 1, the prototypes from the features of the training passes as in the published program."""
    server, own, prototypes, clients, path = network(), {}, {}, data(), []
    first = server
    for S in SCHEDULE:
        sums, ends = {}, []
        for i in S:
            net = copy.deepcopy(own.get(i, first) if personal else server)
            for x, y in batches(*clients[i]):
                z = net[:2](x)
                loss = functional.cross_entropy(net[2](z), y)
                wanted = torch.stack(
                    [prototypes.get(int(c), z[k].detach()) for k, c in enumerate(y)]
                )
                for k, c in enumerate(y):
                    sums.setdefault(int(c), []).append(z[k].detach())
                sgd(net, loss + weight * functional.mse_loss(z, wanted))
            own[i] = net
            ends.append(net)
        prototypes |= {c: torch.stack(seen).mean(0) for c, seen in sums.items()}
        server = mean_of(ends)
        path.append(server)
    return path


@EXECUTORS
@pytest.mark.parametrize("row_by_row", [False, True])
@pytest.mark.parametrize("personal", [False, True])
def test_fedproto_equals_its_box(executor, personal, row_by_row):
    assert_same(
        walk(zoo.fedproto(ETA, 3.0, personal), executor, row_by_row), fedproto(3.0, personal)
    )


def test_embeddings_of_a_block_are_those_of_its_rows():
    model, (x, y) = ModuleModel(network()).embedding(), data()[2]
    points = torch.stack([model.init(), 2 * model.init()])
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    block = Batch(
        (torch.stack([x[:6], x[6:]]), torch.stack([y[:6], y[6:]])),
        torch.ones(2),
        torch.zeros(2).long(),
        mask,
    )
    together = model(points, block)
    model.traits = ROW_BY_ROW
    for out in (together, model(points, block)):
        assert out.embedding.shape == (2, 6, 4)
        for i, net in enumerate((network(), network())):
            with torch.no_grad():
                for p in net.parameters():
                    p *= i + 1
            assert torch.allclose(
                out.embedding[i][mask[i]], net[:2](block.fields[0][i][mask[i]]), atol=1e-14
            )
    assert model(points[0], block.row(0)).embedding.shape == (6, 4)
    assert ModuleModel(network())(points, block).embedding is None


@pytest.mark.parametrize("method", [zoo.moon, zoo.fedproto])
def test_models_without_a_representation_are_refused_at_the_start(method):
    def squares(x, batch):
        return (batch.inputs @ x) ** 2

    for model in (
        FunctionModel(squares, torch.zeros(3, dtype=torch.float64)),
        ModuleModel(torch.nn.Linear(3, 3).double()),
        ModuleModel(torch.nn.Conv1d(1, 1, 1).double()),
    ):
        with pytest.raises(InputError, match="last linear layer"):
            Task(method(), model, Federation.of(data()))


def test_prototypes_are_refused_without_classes():
    clients = [(x, x[:, 0]) for x, _ in data()]
    with pytest.raises(InputError, match="one class a sample"):
        Task(zoo.fedproto(), ModuleModel(network(), functional.mse_loss), Federation.of(clients))
