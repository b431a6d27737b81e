"""The probabilistic line search: its belief against plain formulas, and what it accepts."""

from __future__ import annotations

from math import asin, pi

import numpy as np
import pytest
import torch

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.local.objective import Objective
from fedstep.local.solver import LocalSolver
from fedstep.local.terms import L2
from fedstep.models.function import FunctionModel
from fedstep.steps.belief import Belief, covariance, orthant
from fedstep.steps.probabilistic import ProbabilisticSearch

SEEN = ((0.0, 0.0, -1.0, 0.01, 0.04), (1.0, -0.3, 0.2, 0.01, 0.04), (2.5, 0.4, 0.9, 0.02, 0.01))


def wiener(points):
    """Covariance of (f, f') of the integrated Wiener process begun at -10, by summing over its increments."""
    grid, h = np.linspace(-10, 3, 52001, retstep=True)
    middle = (grid[:-1] + grid[1:]) / 2
    rows = [np.clip(t - middle, 0, None) for t in points] + [
        (middle < t).astype(float) for t in points
    ]
    return np.array([[np.sum(a * b) * h for b in rows] for a in rows])


def test_the_prior_is_the_integrated_wiener_process():
    points = [0.0, 0.7, 2.5]
    ours = covariance(*(torch.tensor(points, dtype=torch.float64),) * 2).numpy()
    assert np.allclose(ours, wiener(points), rtol=1e-6)


def test_the_posterior_is_that_of_the_normal_equations():
    t = np.array([s[0] for s in SEEN])
    at = np.array([0.5, 2.0])
    every = covariance(*(torch.tensor(np.concatenate([t, at])),) * 2).numpy()
    seen, new = [0, 1, 2, 5, 6, 7], [3, 4, 8, 9]
    y = np.array([s[1] for s in SEEN] + [s[2] for s in SEEN])
    noise = np.diag([s[3] for s in SEEN] + [s[4] for s in SEEN]) + 1e-10 * np.eye(6)
    gain = every[np.ix_(new, seen)] @ np.linalg.inv(every[np.ix_(seen, seen)] + noise)
    mean, cov = Belief.of(*SEEN).at(torch.tensor(at))
    assert np.allclose(mean.numpy(), gain @ y, rtol=1e-9)
    assert np.allclose(
        cov.numpy(), every[np.ix_(new, new)] - gain @ every[np.ix_(seen, new)], rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.0, 0.5, 0.95])
def test_the_probability_of_a_quadrant_is_the_known_one(rho):
    quadrant = orthant(0.0, 0.0, 50.0, 4.0, 2 * rho, 1.0)
    assert quadrant == pytest.approx(0.25 + asin(rho) / (2 * pi), abs=2e-5)


def test_the_wolfe_probability_is_that_of_samples_of_the_belief():
    belief, c1, c2, t = Belief.of(*SEEN), 0.05, 0.5, 1.3
    mean, cov = (m.numpy() for m in belief.at(torch.tensor([0.0, t], dtype=torch.float64)))
    f0, ft, s0, st = np.random.default_rng(0).multivariate_normal(mean, cov, 400_000).T
    top = 2 * c2 * (abs(mean[2]) + 2 * np.sqrt(cov[2, 2]))
    b = st - c2 * s0
    wanted = np.mean((ft <= f0 + c1 * t * s0) & (b >= 0) & (b <= top))
    assert belief.wolfe(t, c1, c2) == pytest.approx(wanted, abs=4e-3)
    assert 0.05 < wanted < 0.95


def test_candidates_are_the_minima_of_the_posterior_mean():
    belief = Belief.of(*SEEN)
    *inner, last = belief.candidates(2.0)
    grid = torch.linspace(0, 2.5, 501, dtype=torch.float64)
    mean = belief.at(grid)[0][: len(grid)]
    low = [
        float(grid[i])
        for i in range(1, len(grid) - 1)
        if mean[i] < mean[i - 1] and mean[i] <= mean[i + 1]
    ]
    assert inner == pytest.approx(low, abs=5e-3)
    assert last == 4.5


def test_the_expected_improvement_is_that_of_samples():
    belief = Belief.of(*SEEN)
    mean, cov = belief.at(torch.tensor([0.8], dtype=torch.float64))
    lowest = float(belief.at(belief.t)[0][:3].min())
    draws = np.random.default_rng(1).normal(float(mean[0]), float(cov[0, 0]) ** 0.5, 400_000)
    assert belief.improvement(0.8) == pytest.approx(
        np.mean(np.clip(lowest - draws, 0, None)), rel=0.02
    )


def squares(x, batch):
    return (batch.inputs @ x - batch.targets) ** 2


def samples(n=6, same=False):
    g = torch.Generator().manual_seed(4)
    a, b = (
        torch.randn(n, 3, generator=g, dtype=torch.float64),
        torch.randn(n, generator=g, dtype=torch.float64),
    )
    return (a[:1].expand(n, -1), b[:1].expand(n)) if same else (a, b)


def run(rule, a, b, steps=6, batch=6, executor=None):
    model = FunctionModel(squares, torch.zeros(3, dtype=torch.float64))
    algorithm = Algorithm(LocalSolver(rule))
    task = Task(algorithm, model, Federation.of([(a, b)]), Plan(batch, steps, order=InOrder()))
    return next(
        (executor or Sequential())(
            task, algorithm.broadcast(algorithm.init(model.init())), [0], Store()
        )
    )


def test_noise_is_the_variance_of_the_means_over_the_samples():
    a, b = samples()
    x, d = torch.tensor([0.3, -1.0, 0.5]).double(), torch.tensor([1.0, 0.2, -0.4]).double()
    batch = Batch((a, b), torch.tensor(1.0), torch.tensor(0))
    ctx = Context(x, FunctionModel(squares, x))
    noisy = Objective(ctx, batch, (L2(0.2),)).noisy(x, d)
    r, q = (a @ x - b).numpy(), (a @ d).numpy()
    assert float(noisy.value) == pytest.approx(np.mean(r**2) + 0.1 * float(x @ x), rel=1e-12)
    assert float(noisy.slope) == pytest.approx(np.mean(2 * r * q) + 0.2 * float(x @ d), rel=1e-12)
    assert float(noisy.value_variance) == pytest.approx(np.var(r**2, ddof=1) / 6, rel=1e-12)
    assert float(noisy.slope_variance) == pytest.approx(np.var(2 * r * q, ddof=1) / 6, rel=1e-12)


@pytest.mark.parametrize("start", [1e-3, 0.05, 1.0, 30.0])
def test_where_samples_agree_accepted_steps_satisfy_the_strong_wolfe_conditions(start):
    a, b = samples(same=True)  # 1-d quadratic along g: f(eta) = f (1 - 2 eta |a|^2)^2
    update = run(ProbabilisticSearch(start=start, trials=25), a, b, steps=1)
    eta, curvature = float(update.trace.sizes[0]), 2 * float(a[0] @ a[0])
    left = 1 - eta * curvature  # slope at the end over slope at the start
    assert not update.trace.failed.any()
    assert (
        left**2 <= 1 - 0.05 * 2 * eta * curvature + 1e-9
    )  # Armijo: f (1 - eta c)^2 <= f - c1 eta |g|^2, |g|^2 = 2 c f
    assert abs(left) <= 0.5 + 1e-9


def test_more_noise_makes_a_good_step_less_certain():
    sure, unsure = (
        Belief.of((0.0, 0.0, -1.0, v, v), (1.0, -0.5, 0.0, v, v)).wolfe(1.0, 0.05, 0.5)
        for v in (1e-6, 1.0)
    )
    assert sure > 0.99
    assert 0.1 < unsure < 0.9


def test_costs_are_counted():
    a, b = samples()
    trace = run(ProbabilisticSearch(), a, b).trace
    trials = int(trace.trials.sum())
    assert trace.passes.forwards == 6 + 6 + trials
    assert trace.passes.backwards == 6 + 2 * 6 + 2 * trials


def test_a_mean_loss_is_refused():
    model = FunctionModel(
        lambda x, batch: squares(x, batch).mean(), torch.zeros(3, dtype=torch.float64)
    )
    algorithm = Algorithm(LocalSolver(ProbabilisticSearch()))
    task = Task(algorithm, model, Federation.of([samples()]), Plan(6, 1))
    with pytest.raises(InputError, match="a mean already"):
        next(Cohort()(task, algorithm.broadcast(algorithm.init(model.init())), [0], Store()))


@pytest.mark.parametrize(
    "bad", [{"c1": 0.6}, {"threshold": 1.0}, {"trials": 0}, {"start": -1.0}, {"wild": 0.5}]
)
def test_unusable_settings_are_refused(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        ProbabilisticSearch(**bad)
