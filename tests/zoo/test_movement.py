"""The special cases of the methods that change how a client moves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from problems import federation, final, model, simulation
from test_reductions import same

from fedstep import zoo
from fedstep.core.errors import InputError
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Store, Task
from fedstep.local.directions import Chain, Clip, Steepest
from fedstep.local.moves import Decayed, Inertia, Nesterov
from fedstep.local.oracles import TwoPoint
from fedstep.local.preconditioned import Adam, AMSGrad, Preconditioned, RMSProp
from fedstep.local.stale import Stale
from fedstep.local.storm import Storm
from fedstep.optim import Searching
from fedstep.run.simulate import Simulation
from fedstep.spec import build
from fedstep.steps.distance import DistanceOverGradients
from fedstep.steps.frank_wolfe import FrankWolfe
from fedstep.steps.lipschitz import LipschitzSearch
from fedstep.steps.probabilistic import ProbabilisticSearch
from fedstep.steps.secant import SecantStep


def test_accelerations_with_beta_zero_are_fedsls():
    for method in (zoo.fedsls_momentum, zoo.fedsls_nesterov):
        assert same(method(beta=0.0), zoo.fedsls())
        assert not same(method(beta=0.5), zoo.fedsls())
    assert not same(zoo.fedsls_nesterov(), zoo.fedsls())


def test_adasls_with_a_huge_eps_is_fedsls_on_a_scaled_grid():
    # P = 1 / eps: a step eta eps along P g is eta along g, and Armijo's right side is the same
    eps = 2.0**60
    assert same(zoo.fedadasls(eps=eps, max_step=10 * eps), zoo.fedsls(max_step=10.0))
    assert not same(zoo.fedadasls(), zoo.fedsls())


def test_adam_without_momentum_and_with_one_step_is_rmsprop_without_bias():
    plan = Plan(batch=4, steps=1)  # v / (1 - beta) = g^2 in the first step, whatever beta
    ends = [
        final(simulation(zoo.fedadasls(moment=Adam(beta, 0.0)), plan=plan), 2)
        for beta in (0.5, 0.99)
    ]
    assert torch.allclose(*ends, rtol=1e-12)
    unscaled = final(simulation(zoo.fedadasls(moment=RMSProp(0.5)), plan=plan), 2)
    assert not torch.allclose(ends[0], unscaled)


def test_amsgrad_is_adam_while_the_second_moment_grows():
    plan = Plan(batch=4, steps=1)
    ends = [
        final(simulation(zoo.fedadasls(moment=m(0.9, 0.9)), plan=plan), 2) for m in (Adam, AMSGrad)
    ]
    assert torch.allclose(*ends, rtol=1e-12)
    assert not same(zoo.fedadasls(moment=Adam(0.5)), zoo.fedadasls(moment=AMSGrad(0.5)))


def test_dfw_with_a_small_step_is_fedavg():
    assert same(
        zoo.feddfw(0.01), zoo.fedavg(0.01)
    )  # the loss is far above step |g|^2, so gamma is 1
    assert not same(zoo.feddfw(5.0), zoo.fedavg(5.0))
    assert not same(zoo.feddfw(0.01, momentum=0.5), zoo.fedavg(0.01))
    assert not same(zoo.feddfw(0.01, weight_decay=0.1), zoo.fedavg(0.01))


def test_delta_sgd_that_cannot_grow_or_shrink_is_fedavg():
    assert same(zoo.delta_sgd(0.1, gamma=1e9, delta=0.0), zoo.fedavg(0.1))
    assert not same(zoo.delta_sgd(0.1), zoo.fedavg(0.1))


def test_fedzo_with_many_directions_is_near_fedavg():
    few, many = (
        (
            final(simulation(zoo.fedzo(0.1, n, 1e-5)), 1) - final(simulation(zoo.fedavg(0.1)), 1)
        ).norm()
        for n in (5, 500)
    )
    assert many < few / 4  # the error falls with the root of the number: 10 times


def test_one_worker_is_fedavg():
    assert torch.equal(
        final(simulation(zoo.fedlocalasync(0.3, 1))), final(simulation(zoo.fedavg(0.3)))
    )
    assert not same(zoo.fedlocalasync(0.3, 4), zoo.fedavg(0.3))
    assert not same(zoo.fedlocalasync(0.3, 4), zoo.fedlocalasync(0.3, 4, torn=False))


def test_fafed_without_memory_on_one_client_is_gradient_descent():
    data = federation()
    alone = Federation(data.fields, data.parts[:1])
    ends = []
    for algorithm in (zoo.fafed(0.1, a=1.0, beta=1.0, rho=1.0), zoo.fedavg(0.1)):
        task = Task(algorithm, model(), alone, Plan(batch=100, steps=4))
        ends.append(final(Simulation(task, 1), 3))
    assert torch.allclose(*ends, rtol=1e-12, atol=1e-12)
    assert not same(zoo.fafed(0.1), zoo.fedavg(0.1))


def test_seg_with_a_tiny_step_is_near_fedavg_with_it():
    step = 1e-6
    seg, avg = (final(simulation(m)) for m in (zoo.fedseg(max_step=step), zoo.fedavg(step)))
    begin = simulation(zoo.fedavg()).begin(1).x
    assert torch.allclose(
        seg - begin, avg - begin, rtol=1e-4
    )  # the gradient at the end of the step is nearly that at x


def test_seg_steps_do_not_exceed_what_smoothness_allows():
    sim = simulation(zoo.fedseg())
    rows = [row for _, row in sim.run(sim.begin(3), Store(), 3)]
    assert all(row.failed == 0 and row.trials >= 1 for row in rows)


@pytest.mark.parametrize(
    "rule",
    [LipschitzSearch(), ProbabilisticSearch(), SecantStep()],
    ids=lambda r: type(r).__name__,
)
def test_searches_that_need_more_than_values_are_refused_by_the_torch_optimiser(rule):
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(InputError, match="LocalSolver"):
        Searching([w], rule).step(lambda: w @ w)


@pytest.mark.parametrize(
    "rule",
    [DistanceOverGradients(first=0.1), FrankWolfe()],
    ids=lambda r: type(r).__name__,
)
def test_adaptive_steps_serve_as_torch_optimisers(rule):
    w = torch.tensor([1.0, -2.0], requires_grad=True)
    optimizer = Searching([w], rule)
    losses = [float(optimizer.step(lambda: w @ w)) for _ in range(20)]
    assert losses[-1] < 0.1 * losses[0]


def test_parts_are_written_as_text():
    assert build("fedadasls(moment=AMSGrad(beta=0.9))").local.direction == Preconditioned(
        AMSGrad(0.9)
    )
    assert build("fedsls_nesterov(beta=0.5)").local.move == Nesterov(0.5)


def test_a_part_that_travels_elsewhere_comes_last_in_a_chain():
    last = Chain((Clip(1.0), Preconditioned(Adam())))
    assert torch.isfinite(
        final(simulation(replace(zoo.fedavg(), local=replace(zoo.fedavg().local, direction=last))))
    ).all()
    with pytest.raises(InputError, match="put it last"):
        Chain((Preconditioned(Adam()), Clip(1.0)))


def test_a_chain_travels_as_its_last_part_does():
    alone, chained = (
        replace(zoo.fedadasls(moment=Adam()), local=replace(zoo.fedadasls().local, direction=d))
        for d in (Preconditioned(Adam()), Chain((Steepest(), Preconditioned(Adam()))))
    )
    assert same(alone, chained)


@pytest.mark.parametrize(
    ("part", "bad"),
    [
        (Inertia, {"beta": 1.0}),
        (Nesterov, {"beta": -0.1}),
        (Decayed, {"rate": 0.0}),
        (Stale, {"workers": 0}),
        (Storm, {"rho": 0.0}),
        (Storm, {"a": 1.5}),
        (TwoPoint, {"directions": 0}),
        (TwoPoint, {"radius": 0.0}),
        (Adam, {"beta": 1.0}),
        (Preconditioned, {"eps": -1.0}),
        (SecantStep, {"start": 0.0}),
        (DistanceOverGradients, {"reach": 0.0}),
        (DistanceOverGradients, {"first": -1.0}),
        (FrankWolfe, {"step": 0.0}),
        (LipschitzSearch, {"c": 0.0}),
    ],
)
def test_unusable_settings_are_refused(part, bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        part(**bad)
