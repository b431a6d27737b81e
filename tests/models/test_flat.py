"""A model as a function of its flat vector, for one client and for a block."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedstep import zoo
from fedstep.core.types import Batch
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.models.layers import is_linear, to_group_norm
from fedstep.models.module import ModuleModel
from fedstep.models.traits import ModelTraits
from fedstep.run.simulate import Simulation


def batch(n=6, clients=None, mask=None, inputs=(4,)):
    g = torch.Generator().manual_seed(0)
    lead = () if clients is None else (clients,)
    x, y = (
        torch.randn(*lead, n, *inputs, generator=g).double(),
        torch.randint(3, (*lead, n), generator=g),
    )
    return Batch((x, y), torch.ones(lead), torch.zeros(lead, dtype=torch.int64), mask)


def test_flat_vector_and_module_agree():
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    model, data = ModuleModel(module), batch()
    expected = nn.functional.cross_entropy(module(data.inputs), data.targets)
    assert torch.allclose(model(model.init(), data).loss, expected, rtol=1e-14)
    assert model.dim == 4 * 5 + 5 + 5 * 3 + 3


def test_block_equals_its_rows_and_padding_does_not_count():
    model = ModuleModel(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double())
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] + [False] * 5])
    data = batch(clients=3, mask=mask)
    x = torch.randn(3, model.dim, generator=torch.Generator().manual_seed(1)).double()
    block = model(x, data).loss
    assert model.examined(batch()).traits == ModelTraits(random=False, blocks=True, padding=True)
    rows = torch.stack([model(x[i], data.row(i)).loss for i in range(3)])
    assert torch.allclose(block, rows, rtol=1e-13)


@pytest.mark.parametrize("layer", [nn.LSTM(4, 5, batch_first=True), nn.GRU(4, 5, batch_first=True)])
def test_recurrent_models_run_in_blocks_row_by_row(layer):
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.head = layer, nn.Linear(5, 3)

        def forward(self, x):
            return self.head(self.inner(x)[0][:, -1])

    model = ModuleModel(Last().double())
    data = batch(clients=2, inputs=(7, 4))
    x = model.init().expand(2, -1)
    assert torch.allclose(
        model(x, data).loss,
        torch.stack([model(x[i], data.row(i)).loss for i in range(2)]),
        rtol=1e-13,
    )


def test_data_dependent_control_flow_runs_row_by_row():
    class Branch(nn.Linear):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else 2 * super().forward(x)

    model = ModuleModel(Branch(4, 3).double())
    data = batch(clients=3)
    x = model.init().expand(3, -1)
    block = model(x, data).loss
    assert not model.examined(batch()).traits.blocks
    assert torch.allclose(block, torch.stack([model(x[i], data.row(i)).loss for i in range(3)]))


def test_a_shape_error_is_raised_in_plain_words():
    model = ModuleModel(nn.Linear(7, 3).double())
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        model(model.init().expand(2, -1), batch(clients=2))


def test_dropout_depends_on_the_seed_of_the_batch_alone():
    model = ModuleModel(nn.Sequential(nn.Linear(4, 50), nn.Dropout(), nn.Linear(50, 3)).double())
    one = batch()
    other = Batch(one.fields, one.share, one.seed + 1)
    state = torch.get_rng_state()
    first = model(model.init(), one).loss
    assert torch.equal(first, model(model.init(), one).loss)
    assert not torch.equal(first, model(model.init(), other).loss)
    assert torch.equal(state, torch.get_rng_state())
    quiet = model.evaluating()
    assert torch.equal(quiet(model.init(), one).loss, quiet(model.init(), other).loss)


def test_tied_weights_are_one_parameter():
    module = nn.Sequential(
        nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False), nn.Linear(4, 3)
    ).double()
    module[1].weight = module[0].weight
    model = ModuleModel(module)
    assert model.dim == 16 + 15
    trained = model.load(torch.ones(model.dim).double())
    assert trained[1].weight is trained[0].weight


LINEAR = [
    (nn.Linear(4, 3), True),
    (nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), True),
    (nn.Linear(4, 3, bias=False), True),
    (nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)), False),
    (nn.Sequential(nn.Linear(4, 3), nn.Softplus()), False),
    (nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 3)), False),
    (nn.Sequential(nn.Dropout(), nn.Linear(4, 3)), False),
]


@pytest.mark.parametrize(("module", "expected"), LINEAR)
def test_linear_models_are_recognised(module, expected):
    assert is_linear(module) is expected


def test_a_linear_layer_with_a_frozen_bias_is_not_linear_in_its_parameters():
    layer = nn.Linear(4, 3)
    layer.bias.requires_grad_(False)
    assert not is_linear(layer)


@pytest.mark.parametrize("executor", [Sequential(), Cohort(3)])
@pytest.mark.parametrize("algorithm", [zoo.fedsls(), zoo.fedexpsls(c=0.5), "prox"])
def test_the_short_cut_of_linear_models_changes_no_number(executor, algorithm):
    if algorithm == "prox":
        from dataclasses import replace

        plain = zoo.fedsls()
        algorithm = replace(
            plain, local=replace(plain.local, terms=zoo.fedprox(mu=0.3).local.terms)
        )
    g = torch.Generator().manual_seed(2)
    clients = [
        (torch.randn(n, 4, generator=g).double(), torch.randint(3, (n,), generator=g))
        for n in (5, 9, 14, 3)
    ]
    ends, trials = [], []
    for linear in (True, False):
        model = ModuleModel(nn.Linear(4, 3).double())
        with torch.no_grad():
            model._start.zero_()
        assert model.linear
        model.linear = linear
        sim = Simulation(
            Task(algorithm, model, Federation.of(clients), Plan(4, 6)), 4, executor=executor
        )
        rows = list(sim.run(sim.begin(4), Store(), 4))
        ends.append(rows[-1][0].x)
        trials.append([r.trials for _, r in rows])
    assert torch.allclose(*ends, rtol=1e-12, atol=1e-12)
    assert trials[0] == trials[1]


def test_group_norm_conversion_reaches_nested_layers_and_keeps_scale_and_shift():
    inner = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6))
    with torch.no_grad():
        inner[1].weight.fill_(2.0)
        inner[1].bias.fill_(0.5)
    converted = to_group_norm(
        nn.Sequential(inner, nn.BatchNorm2d(6), nn.InstanceNorm2d(6)), groups=4
    )
    assert type(converted[0][1]) is nn.GroupNorm
    assert converted[0][1].num_groups == 2  # the largest common divisor of 4 and 6
    assert torch.equal(converted[0][1].weight, torch.full((6,), 2.0))
    assert torch.equal(converted[0][1].bias, torch.full((6,), 0.5))
    assert type(converted[2]) is nn.InstanceNorm2d
    assert isinstance(inner[1], nn.BatchNorm2d)
    assert isinstance(to_group_norm(nn.BatchNorm1d(4)), nn.GroupNorm)
