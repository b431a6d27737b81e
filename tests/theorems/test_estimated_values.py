"""Armijo's condition on estimated values (Paquette and Scheinberg, 2020): what an accepted step is worth."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedstep import zoo
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.steps.conditions import Armijo
from fedstep.steps.trial import ReferenceLine, SearchStart, Trial

unit = st.floats(0.01, 0.99)


def tensor(value):
    return torch.tensor(value, dtype=torch.float64)


def accepted(f_0, f_s, eta, g_sq, c):
    zero = tensor(0.0)
    begin = SearchStart(tensor(f_0), tensor(-g_sq), zero, zero, zero, 0.5)
    line = ReferenceLine(begin.f, begin.slope)
    trial = Trial.first(begin, line, tensor(eta), slack=0.0)
    return not bool(Armijo(c)(Trial(**{**vars(trial), "value": tensor(f_s)})))


@given(unit, unit, unit, st.floats(0.1, 10.0), st.floats(-1, 1), st.floats(-1, 1), st.floats(-3, 3))
def test_a_step_accepted_on_accurate_estimates_gains_c_less_two_kappa_eta(
    c, kappa, eta, g_sq, above, below, change
):
    error = kappa * eta**2 * g_sq
    f, after = 1.0, 1.0 + change
    if accepted(f + above * error, after + below * error, eta, g_sq, c):
        assert f - after >= (c - 2 * kappa * eta) * eta * g_sq - 1e-12


def test_beyond_c_over_two_kappa_an_accepted_step_may_raise_the_loss():
    c, kappa, eta = 0.1, 0.5, 0.2  # eta > c / (2 kappa)
    error = kappa * eta**2
    rise = 0.9 * (2 * kappa * eta - c) * eta
    assert accepted(1.0 + error, 1.0 + rise - error, eta, 1.0, c)
    assert rise > 0


# The method


def losses(x, batch):
    return (batch.inputs @ x - batch.targets) ** 2 / 2


def literal(a, b, x, eta, steps, batch, c, grow, max_step):
    """One client's round by hand; its values are of all samples of the round."""
    starts = [batch * k % len(a) for k in range(steps)]
    rows = [list(range(k, min(k + batch, len(a)))) for k in starts]
    every = [i for some in rows for i in some]

    def f(x):
        return ((a[every] @ x - b[every]) ** 2 / 2).mean()

    eta, taken = eta / grow, []
    for some in rows:
        eta = min(grow * eta, max_step)
        g = a[some].T @ (a[some] @ x - b[some]) / len(some)
        good = bool(f(x - eta * g) <= f(x) - c * eta * (g @ g))
        taken.append(eta if good else 0.0)
        x, eta = (x - eta * g, eta) if good else (x, eta / grow**2)
    return x, eta * grow, taken


@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
def test_fedsls_estimated_equals_the_algorithm_written_out(executor):
    g = torch.Generator().manual_seed(3)
    clients = []
    for n in (6, 9, 4):
        a = torch.randn(n, 3, generator=g, dtype=torch.float64)
        clients.append((a, torch.randn(n, generator=g, dtype=torch.float64)))
    model = FunctionModel(losses, torch.zeros(3, dtype=torch.float64))
    task = Task(
        zoo.fedsls_estimated(c=0.3, grow=1.5),
        model,
        Federation.of(clients),
        Plan(2, 4, order=InOrder()),
    )
    sim, store = Simulation(task, 3, executor=executor), Store()
    x, etas, refused = torch.zeros(3, dtype=torch.float64), [1.0] * 3, 0
    for server, row in sim.run(sim.begin(3), store, 3):
        ends = []
        for i, (a, b) in enumerate(clients):
            end, etas[i], taken = literal(a, b, x, etas[i], 4, 2, 0.3, 1.5, 1.0)
            ends.append(end)
            refused += taken.count(0.0)
        x = torch.stack(ends).mean(0)
        assert torch.allclose(server.x, x, atol=1e-12)
        # a gradient a step, an estimate of four batches at x and at the trial
        assert row.forwards == 3 * 4 * (1 + 4 + 4)
    assert 0 < refused < 36
