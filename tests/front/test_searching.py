"""Any step rule as a torch optimiser."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedstep import InputError
from fedstep.optim import Armijo, Searching
from fedstep.steps import conditions
from fedstep.steps.conditions import Goldstein, ImprovedGoldstein, StrongWolfe, Wolfe
from fedstep.steps.polyak import Polyak
from fedstep.steps.references import ZhangHager
from fedstep.steps.resets import PolyakGuess
from fedstep.steps.search import LineSearch

RULES = [
    LineSearch(Goldstein()),
    LineSearch(ImprovedGoldstein()),
    LineSearch(Wolfe()),
    LineSearch(StrongWolfe(0.1, 0.5)),
    LineSearch(reset=PolyakGuess(), reference=ZhangHager(), shrink=0.5),
    Polyak(max_step=1.0),
]


def task():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 2)).double()
        x = torch.randn(40, 3).double()
    y = (x[:, 0] > x[:, 1]).long()
    return model, lambda: nn.functional.cross_entropy(model(x), y)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: type(getattr(r, "condition", r)).__name__)
def test_it_learns_with_every_rule(rule):
    model, loss = task()
    optimizer = Searching(model.parameters(), rule)
    losses = [float(optimizer.step(loss)) for _ in range(40)]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    assert not optimizer.failed


def test_the_slope_at_a_trial_leaves_the_parameters_where_the_step_ends():
    model, loss = task()
    model.eval()
    optimizer = Searching(model.parameters(), LineSearch(StrongWolfe(0.1, 0.5), max_step=10.0))
    params = list(model.parameters())
    before = torch.cat([p.detach().reshape(-1).clone() for p in params])
    g = torch.cat([v.reshape(-1) for v in torch.autograd.grad(loss(), params)])
    optimizer.step(loss)
    eta = optimizer.param_groups[0]["lr"]
    after = torch.cat([p.detach().reshape(-1) for p in params])
    assert torch.allclose(after, before - eta * g, rtol=1e-14)
    bent = torch.cat([v.reshape(-1) for v in torch.autograd.grad(loss(), params)])
    assert abs(float(bent @ g)) <= 0.5 * float(g @ g)


def test_armijo_is_searching_with_an_armijo_search():
    model, loss = task()
    twin, twin_loss = task()
    model.eval(), twin.eval()
    search = LineSearch(conditions.Armijo(0.3), max_step=4.0)
    one = Armijo(model.parameters(), 0.3, max_step=4.0)
    two = Searching(twin.parameters(), search)
    assert one.rule == search
    for _ in range(30):
        one.step(loss)
        two.step(twin_loss)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True)
    )


def test_what_is_no_step_rule_is_refused():
    with pytest.raises(InputError, match="give a step rule"):
        Searching([nn.Parameter(torch.ones(1))], 0.1)
