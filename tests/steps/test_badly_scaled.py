"""Searches whose right step is twelve decades below where they begin."""

from __future__ import annotations

import pytest
import torch

from fedstep import build, zoo
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.steps.proposals import Parabola

CURVATURE = 1e12


def rows(algorithm, steps, executor=None, rounds=1):
    """One client whose loss is CURVATURE / 2 x^2, from x = 1."""
    model = FunctionModel(lambda x, batch: CURVATURE / 2 * x**2, torch.ones(1).double())
    data = Federation.of([(torch.ones(1), torch.ones(1))])
    task = Task(algorithm, model, data, Plan(1, steps, order=InOrder()))
    sim = Simulation(task, 1, executor=executor or Sequential())
    return [row for _, row in sim.run(sim.begin(rounds), Store(), rounds)]


def test_a_fixed_factor_fails_where_the_adaptive_one_needs_seven_trials():
    (fixed,) = rows(zoo.fedsls(), 1)
    assert fixed.failed == 1
    (adaptive,) = rows(zoo.fedsls_adaptive(), 1)
    assert adaptive.failed == 0
    # 1, then a hundredth five times: 1e-10 is refused, the parabola's 1.62e-12 is not
    assert adaptive.trials == 7
    assert adaptive.steps[2] == pytest.approx(0.9 * 2 * 0.9 / CURVATURE)


def test_without_a_least_factor_the_second_trial_is_the_one():
    (row,) = rows(zoo.fedsls_adaptive(least=1e-15), 1)
    assert row.trials == 2
    assert row.steps[2] == pytest.approx(0.9 * 2 * 0.9 / CURVATURE)


@pytest.mark.parametrize("executor", [Sequential(), Cohort()])
def test_a_careful_start_is_there_from_below(executor):
    # a hundredth of f / |g|^2 is 0.005 / curvature: nothing of it is refused
    first, *_, last = rows(build("fedpace(beta=0)"), 8, executor, rounds=4)
    assert first.trials == 1
    assert first.steps[0] == pytest.approx(0.005 / CURVATURE)
    assert last.failed == 0
    assert 0.1 / CURVATURE < last.steps[2] < 2 / CURVATURE


def test_with_the_largest_factor_it_is_fedsls():
    plain = zoo.fedsls(max_step=1.0)
    same = zoo.fedsls_adaptive(max_step=1.0, least=0.9)
    model = FunctionModel(lambda x, batch: 20 * (x - batch.targets) ** 2, torch.ones(1).double())
    data = Federation.of([(torch.ones(4), torch.arange(4.0).double())])
    ends = []
    for algorithm in (plain, same):
        sim = Simulation(Task(algorithm, model, data, Plan(2, 6)), 1)
        *_, (server, row) = sim.run(sim.begin(2), Store(), 2)
        ends.append((server.x, row.trials))
    assert torch.equal(ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]


def test_the_factor_is_the_paper_s():
    search = zoo.fedsls_adaptive(c=0.2, shrink=0.7).local.step
    assert isinstance(search.proposal, Parabola)
    assert 1 - search.proposal.aim == pytest.approx(0.7 * (1 - 0.2))
