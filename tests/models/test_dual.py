"""The dual form of a linear model is the same algorithm: equal to the plain form up to rounding."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
import torch
from torch import nn

from fedstep import zoo
from fedstep.algorithm import Algorithm
from fedstep.data.federation import Federation
from fedstep.data.plan import Fixed, Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.execute import gram_cache as module
from fedstep.execute.gram_cache import GramCache, dual_form_fits, dual_form_pays
from fedstep.local.directions import Clip, Momentum
from fedstep.models.dual import Dual
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.server.rules import Extrapolate

SIZES = (7, 12, 3, 20, 9, 15)
FEATURES, CLASSES = 30, 4


def federation(dtype: torch.dtype = torch.float64) -> Federation:
    g = torch.Generator().manual_seed(1)
    centres = 2 * torch.randn(CLASSES, FEATURES, generator=g, dtype=torch.float64)
    clients = []
    for n in SIZES:
        y = torch.randint(CLASSES, (n,), generator=g)
        clients.append(
            ((centres[y] + torch.randn(n, FEATURES, generator=g, dtype=torch.float64)).to(dtype), y)
        )
    return Federation.of(clients)


def model(
    bias: bool = True, flatten: bool = False, loss=nn.functional.cross_entropy
) -> ModuleModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        layer = nn.Linear(FEATURES, CLASSES, bias=bias).double()
    return ModuleModel(nn.Sequential(nn.Flatten(), layer) if flatten else layer, loss)


def run(algorithm: Algorithm, executor, plan=None, net=None, rounds=3):
    task = Task(algorithm, net or model(), federation(), plan or Plan(batch=5, steps=6), 4)
    sim = Simulation(task, 5, executor=executor)
    steps = list(sim.run(sim.begin(rounds), Store(), rounds))
    return steps[-1][0], [row for _, row in steps]


METHODS = {
    "fedavg": zoo.fedavg(0.3),
    "fedexp": zoo.fedexp(0.3),
    "fedadam": zoo.fedadam(0.3),
    "fedsls": zoo.fedsls(),
    "fedsls, carried": zoo.fedsls(carry=True),
    "fedexpsls": zoo.fedexpsls(),
    "fedsls, largest": zoo.fedsls(c=0.5, largest=True),
    "momentum": replace(
        zoo.fedavg(0.1), local=replace(zoo.fedavg(0.1).local, direction=Momentum(0.5))
    ),
    "momentum and search": replace(
        zoo.fedsls(), local=replace(zoo.fedsls().local, direction=Momentum(0.3))
    ),
}
PLANS = {
    "steps": Plan(batch=5, steps=6),
    "epochs of unequal length": Plan(batch=4, steps=None, epochs=2),
    "whole clients": Plan(batch=50, steps=3),
    "repeated samples": Plan(batch=4, steps=5, order=Fixed(((0, 1, 1, 2, 0, 0),))),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", METHODS)
def test_dual_equals_plain_form(name, plan):
    server, rows = run(METHODS[name], Cohort(block=4), PLANS[plan])
    for other in (Cohort(block=4, dual=False), Sequential()):
        plain, expected = run(METHODS[name], other, PLANS[plan])
        assert torch.allclose(server.x, plain.x, rtol=1e-10, atol=1e-11)
        assert [r.forwards for r in rows] == [r.forwards for r in expected]  # the same trials
        assert [r.failed for r in rows] == [r.failed for r in expected]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize(
    "loss",
    [
        nn.functional.cross_entropy,
        nn.CrossEntropyLoss(),
        lambda p, y: (p.logsumexp(-1) ** 2).mean(),
    ],
)
def test_layers_without_bias_flattened_inputs_and_other_losses(bias, flatten, loss):
    plan = Plan(batch=3, steps=4)
    ends = [
        run(zoo.fedsls(), e, plan, model(bias, flatten, loss))[0].x
        for e in (Cohort(), Cohort(dual=False))
    ]
    assert torch.allclose(*ends, rtol=1e-10, atol=1e-11)
    dual = dual_form_fits(Task(zoo.fedsls(), model(bias, flatten, loss), federation()))
    assert dual == (
        getattr(loss, "__name__", "") != "<lambda>"
    )  # that one is a mean already: padding could not be left out


def test_the_dual_form_is_really_taken(monkeypatch):
    calls = []
    monkeypatch.setattr(module.Dual, "of", lambda *a: calls.append(a) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(zoo.fedsls(), Cohort())
    assert calls
    run(zoo.fedsls(), Cohort(dual=False))


@pytest.mark.parametrize(
    "algorithm",
    [
        zoo.fedprox(0.3, mu=0.1),
        replace(zoo.fedavg(0.1), local=replace(zoo.fedavg(0.1).local, direction=Clip(1.0))),
    ],
)
def test_parts_that_need_more_than_inner_products_keep_to_the_plain_form(algorithm):
    task = Task(algorithm, model(), federation())
    assert not dual_form_fits(task)
    assert torch.allclose(
        run(algorithm, Cohort())[0].x, run(algorithm, Sequential())[0].x, rtol=1e-10
    )


def test_other_models_and_augmented_data_keep_to_the_plain_form():
    net = ModuleModel(
        nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, CLASSES)).double()
    )
    assert not dual_form_fits(Task(zoo.fedavg(), net, federation()))
    augmented = replace(federation(), transform=lambda fields, g: fields)
    assert not dual_form_fits(Task(zoo.fedavg(), model(), augmented))
    assert dual_form_fits(Task(zoo.fedavg(), model(), federation()))


def test_clients_with_more_samples_than_features_or_too_few_steps_keep_to_the_plain_form():
    task = Task(zoo.fedavg(), model(), federation(), Plan(batch=5, steps=60))
    assert dual_form_pays(task, FEATURES - 1)
    assert not dual_form_pays(task, FEATURES)
    assert not dual_form_pays(replace(task, plan=Plan(batch=5, steps=1)), FEATURES - 1)


def test_small_and_large_clients_are_cut_into_different_jobs():
    task = Task(zoo.fedavg(), model(), federation(), Plan(batch=5, steps=3))
    short = [c for c in range(len(SIZES)) if dual_form_pays(task, SIZES[c])]
    assert 0 < len(short) < len(SIZES)
    jobs = Cohort(block=4).jobs(task, range(len(SIZES)))
    assert sorted(c for job in jobs for c in job) == list(range(len(SIZES)))
    assert all(set(job) <= set(short) or not set(job) & set(short) for job in jobs)


def test_inner_products_are_those_of_the_parameters():
    net, fed = model(), federation()
    task = Task(zoo.fedavg(), net, fed)
    anchor = net.init()
    dual = GramCache().dual_form(task, anchor, [1, 4])
    g = torch.Generator().manual_seed(0)
    u, v = (
        torch.randn(dual.enter(anchor).shape, generator=g, dtype=torch.float64) for _ in range(2)
    )
    for row, n in enumerate((SIZES[1], SIZES[4])):  # padding is no sample
        u.view_as(dual.logits)[row, n:] = v.view_as(dual.logits)[row, n:] = 0
    a, b = dual.leave(u) - anchor, dual.leave(v) - anchor
    full = (u.view_as(dual.logits) * (dual.gram @ v.view_as(dual.logits))).sum((1, 2))
    assert torch.allclose((a * b).sum(-1), full, rtol=1e-12)


def test_gram_matrices_are_kept_within_the_limit():
    task = Task(zoo.fedavg(), model(), federation())
    cache = GramCache(limit=8 * (12 * 12 + 20 * 20))
    for client in (0, 1, 2, 3, 1):
        cache.dual_form(task, task.model.init(), [client])
    assert list(cache.matrices) == [3, 1]
    assert cache.bytes == sum(g.numel() * 8 for g in cache.matrices.values())
    cache.dual_form(replace(task, federation=federation()), task.model.init(), [5])
    assert list(cache.matrices) == [5]  # another federation has other clients of the same numbers


def test_extrapolation_sees_the_same_norms():
    alg = replace(zoo.fedavg(0.3), server=Extrapolate(eps=0.0))
    etas = [[r.eta_g for r in run(alg, e)[1]] for e in (Cohort(), Sequential())]
    assert etas[0] == pytest.approx(etas[1], rel=1e-10)
    assert max(etas[0]) > 1


def test_float32_stays_close():
    fed = federation(torch.float32)
    net = ModuleModel(nn.Linear(FEATURES, CLASSES))
    ends = []
    for executor in (Cohort(), Cohort(dual=False)):
        sim = Simulation(
            Task(zoo.fedavg(0.3), net, fed, Plan(batch=5, steps=6)), 6, executor=executor
        )
        *_, (server, _) = sim.run(sim.begin(5), Store(), 5)
        ends.append(server.x)
    assert torch.allclose(*ends, rtol=1e-4, atol=1e-5)
    assert isinstance(GramCache().dual_form(sim.task, net.init(), [0]), Dual)


def test_a_pickled_executor_leaves_its_gram_matrices_behind():
    executor = Cohort(4)
    run(zoo.fedsls(), executor)
    assert executor._cache.matrices
    sent = pickle.loads(pickle.dumps(executor))
    assert sent == executor
    assert not sent._cache.matrices
    assert sent._cache.federation is None


def test_workers_share_the_machine_s_limit_of_gram_matrices():
    alone = Cohort(4)
    one_of_four = alone.one_of(4)
    assert one_of_four._cache.limit == alone._cache.limit // 4
    assert one_of_four.cut == alone.cut
