"""What the rivals reduce to, and how their parts meet the edges."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import final, simulation

from fedstep import InputError, authors, build, zoo
from fedstep.core.aggregate import Aggregate
from fedstep.corrections.client_momentum import ClientMomentum
from fedstep.local.moves import Inertia
from fedstep.local.sharpness import Sharpness
from fedstep.server.relative import RelativeDiversity
from fedstep.steps.agreement import AgreementStep, cosine
from fedstep.steps.harmonic import HarmonicPolyak
from fedstep.steps.secant import ProgramSecantStep, SecantStep


def same(a, b, close=1e-12):
    ends = [final(simulation(method), 3) for method in (a, b)]
    return torch.allclose(*ends, rtol=close, atol=close)


@pytest.mark.parametrize(
    ("method", "special_case"),
    [
        (zoo.fathom(0.1, rate=0.0), zoo.fedavg(0.1)),
        (zoo.fedglad(0.1, bound=0.0), zoo.fedavg(0.1)),
        (zoo.fedngn(1e-9), zoo.fedavg(1e-9)),
        (zoo.fedcm(0.1, alpha=1.0), zoo.fedavg(0.1)),
        (zoo.fedsam(0.1, rho=0.0), zoo.fedavg(0.1)),
        (zoo.mofedsam(0.1, rho=0.2, alpha=1.0), zoo.fedsam(0.1, rho=0.2)),
        (zoo.mofedsam(0.1, rho=0.0, alpha=0.3), zoo.fedcm(0.1, alpha=0.3)),
        (zoo.fedspeed(0.1, rho=0.0, penalty=0.2), zoo.feddyn(0.1, alpha=0.2)),
        (authors.delta_sgd(0.1, 0.0, damping=1e-9, eps=0.0), zoo.fedavg(0.1)),
    ],
    ids=lambda value: type(value.local.step).__name__,
)
def test_special_cases_hold(method, special_case):
    assert same(method, special_case)


@pytest.mark.parametrize(
    ("method", "other"),
    [
        (zoo.fathom(0.1, rate=0.5), zoo.fedavg(0.1)),
        (zoo.fedglad(0.1, bound=0.5), zoo.fedavg(0.1)),
        (zoo.fedcm(0.1, alpha=0.5), zoo.fedavg(0.05)),
        (zoo.fedsam(0.1, rho=0.2), zoo.fedavg(0.1)),
        (zoo.fedspeed(0.1, rho=0.2, penalty=0.2), zoo.feddyn(0.1, alpha=0.2)),
        (authors.delta_sgd(0.1), zoo.delta_sgd(0.1)),
    ],
    ids=lambda value: type(value.local.step).__name__,
)
def test_their_settings_matter(method, other):
    assert not same(method, other)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_the_harmonic_step_is_below_the_cap_and_below_twice_polyaks(f, slope, cap):
    class Line:
        def slope(self, g, d):
            return -(g * g).sum(-1)

    g = torch.tensor([slope], dtype=torch.float64).sqrt()
    value = torch.tensor(f, dtype=torch.float64)
    outcome, _ = HarmonicPolyak(cap).search(Line(), g, value, g, -g, {})
    step = float(outcome.step)
    assert 0 < step <= cap * (1 + 1e-12)
    assert step <= 2 * f / slope * (1 + 1e-12)
    assert step >= min(cap, 2 * f / slope) / 2 * (1 - 1e-12)


def test_the_cosine_of_nothing_is_zero():
    zero = torch.zeros(3)
    one = torch.ones(3)
    assert cosine(zero, one) == 0
    assert cosine(one, torch.full((3,), torch.inf)) == 0
    assert cosine(one, -one) == pytest.approx(-1.0)


def test_a_round_that_cancels_leaves_relative_diversity_as_it_was():
    rule = RelativeDiversity()
    x = torch.zeros(2, dtype=torch.float64)
    deltas = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    total = Aggregate.of(deltas, {}, torch.ones(2))
    before = rule.init(x)
    step = rule.update(x, total.mean(total.delta), total, before)
    assert torch.equal(step.x, x)
    assert step.state.keys() == before.keys()
    assert all(torch.equal(step.state[name], before[name]) for name in before)


def test_client_momentum_serves_a_line_search():
    searched = build("fedsls(correction=ClientMomentum(alpha=0.5), max_step=1.0)")
    assert torch.isfinite(final(simulation(searched), 3)).all()
    plain = replace(searched, correction=ClientMomentum(1.0))
    assert same(plain, zoo.fedsls(max_step=1.0))
    assert not same(searched, zoo.fedsls(max_step=1.0))


@pytest.mark.parametrize(
    ("part", "bad"),
    [
        (AgreementStep, {"step": 0.0}),
        (AgreementStep, {"rate": -1.0}),
        (AgreementStep, {"memory": 1.0}),
        (AgreementStep, {"max_step": 0.0}),
        (HarmonicPolyak, {"cap": 0.0}),
        (RelativeDiversity, {"memory": 1.0}),
        (RelativeDiversity, {"bound": -0.1}),
        (RelativeDiversity, {"step": 0.0}),
        (Sharpness, {"rho": -0.1}),
        (ClientMomentum, {"alpha": 0.0}),
        (Inertia, {"beta": 1.0}),
        (SecantStep, {"start": 0.0}),
        (ProgramSecantStep, {"damping": 0.0}),
        (ProgramSecantStep, {"eps": -1.0}),
    ],
)
def test_wrong_settings_are_named(part, bad):
    (name,) = bad
    with pytest.raises(InputError, match=f"{part.__name__}\\({name}="):
        part(**bad)
