"""How a model can be run is found out once, before the first round."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn

from fedstep import zoo
from fedstep.core.types import Batch
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Processes, Sequential, Store, Task
from fedstep.models.function import FunctionModel
from fedstep.models.module import ModuleModel
from fedstep.models.traits import ModelTraits
from fedstep.run.simulate import Simulation


class Centred(nn.Module):
    """A model that mixes samples: it takes the mean of its batch away."""

    def forward(self, x):
        return x - x.mean(0)


def clients(sizes=(7, 3, 5, 4)):
    g = torch.Generator().manual_seed(2)
    return Federation.of(
        [
            (torch.randn(n, 4, generator=g).double(), torch.randint(3, (n,), generator=g))
            for n in sizes
        ]
    )


def seeded(*layers):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        for layer in layers:
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
    return ModuleModel(nn.Sequential(*layers).double())


def plain():
    return seeded(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def dropout():
    return seeded(nn.Linear(4, 6), nn.Dropout(), nn.Linear(6, 3))


def mixing():
    return seeded(nn.Linear(4, 6), Centred(), nn.Tanh(), nn.Linear(6, 3))


def mean_already():
    def loss(x, batch):
        return ((batch.inputs @ x - batch.targets) ** 2).mean()

    return FunctionModel(loss, torch.zeros(4, dtype=torch.float64))


def zero_start():
    """Mixes samples, which its first point hides: all weights are zero."""

    def loss(x, batch):
        inputs = batch.inputs - batch.inputs.mean(0)
        return (inputs @ x - batch.targets) ** 2

    return FunctionModel(loss, torch.zeros(4, dtype=torch.float64))


KINDS = [
    (plain, ModelTraits(random=False, blocks=True, padding=True)),
    (dropout, ModelTraits(random=True, blocks=False, padding=False)),
    (mixing, ModelTraits(random=False, blocks=True, padding=False)),
    (mean_already, ModelTraits(random=False, blocks=True, padding=False)),
    (zero_start, ModelTraits(random=False, blocks=True, padding=False)),
]
each_kind = pytest.mark.parametrize(
    ("make", "traits"), KINDS, ids=lambda v: getattr(v, "__name__", "")
)


def task(model):
    return Task(zoo.fedsls(), model, clients(), Plan(batch=3, steps=2), 5)


@each_kind
def test_a_task_knows_how_its_model_can_be_run(make, traits):
    model = make()
    assert task(model).model.traits == traits
    assert model.traits is None  # what was given stays as it is


@pytest.mark.parametrize("make", [plain, dropout, mixing])
def test_traits_travel_with_the_pickled_model(make):
    model = task(make()).model
    assert pickle.loads(pickle.dumps(model)).traits == model.traits


@each_kind
def test_an_examination_leaves_the_global_generators_alone(make, traits):
    model = make()
    before = torch.get_rng_state()
    task(model)
    assert torch.equal(before, torch.get_rng_state())


@each_kind
def test_an_examined_model_gives_the_numbers_of_one_that_was_not(make, traits):
    model = make()
    examined = task(model).model
    g = torch.Generator().manual_seed(3)
    x = torch.randn(2, model.dim, generator=g, dtype=torch.float64)
    fields = (torch.randn(2, 3, 4, generator=g).double(), torch.randint(3, (2, 3), generator=g))
    mask = torch.tensor([[True, True, True], [True, True, False]])
    for m in (None, mask):
        batch = Batch(fields, torch.ones(2), torch.tensor([8, 9]), m)
        assert torch.equal(model(x, batch).loss, examined(x, batch).loss)


def test_a_model_that_fails_is_left_to_the_run_which_names_the_client():
    def loss(x, batch):
        if batch.inputs.shape[-1] == 4:
            raise KeyError("no such loss")
        return batch.targets

    broken = FunctionModel(loss, torch.zeros(4, dtype=torch.float64))
    made = task(broken)
    assert made.model.traits is None
    simulation = Simulation(made, 4, executor=Sequential())
    with pytest.raises(KeyError) as caught:
        list(simulation.run(simulation.begin(1), Store(), 1))
    assert any("client" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_that_begin_with_other_clients_compute_alike(workers):
    """The first block a worker meets may be without padding: it must not learn from it."""

    def end(executor):
        simulation = Simulation(task(mixing()), 4, executor=executor)
        *_, (server, _) = simulation.run(simulation.begin(3), Store(), 3)
        return server.x

    with Processes(Cohort(2), workers) as many:
        assert torch.equal(end(many), end(Cohort(2)))
