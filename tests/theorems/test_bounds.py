"""The bounds as functions: against the derived numbers, and the ones that no theorem prints against runs.

`strongly_in_the_mean`: with (1) of test_convergence_bounds.py and mu = 0, a client's first step of a round brings it nearer to w*
by eta (2 - 1/c) (f_i(w_t) - f_i*), eta >= low, and no later step leads away. In the mean over clients, and for eta_g <= 1,

    |w_{t+1} - w*|^2 <= |w_t - w*|^2 - eta_g low (2 - 1/c) (f(w_t) - f*),       f(w_t) - f* >= mu/2 |w_t - w*|^2

with mu of f alone. `drift` and `gradients` have their proofs in their docstrings; neither needs convexity or interpolation.
"""

from __future__ import annotations

from math import inf, isinf, isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_convergence_bounds import (
    BETA,
    Quadratics,
    fedexpsls,
    fedsls,
    low,
    parabola,
    printed_convex,
    printed_strongly_convex,
    proved_convex,
    proved_strongly_convex,
    quadratics,
)

from fedstep.analysis.theory import bounds

some = settings(max_examples=6)
CASES = [
    # c, eta_g, K, eta_max, T, then what the oracle file theorem_bounds_derived has for L = 4, mu = 1, |w_0 - w*|^2 = 6
    (0.9, 0.5, 2, 0.14625, 40, 7.100591715976336, 0.28773850663433553),
    (0.8, 1.0, 1, 0.135, 40, 14.814814814814824, 0.3665260694552447),
    (0.95, 1.0, 4, 0.050625, 40, 7.818930041152267, 0.08388945752511992),
]


@pytest.mark.parametrize(("c", "eta_g", "K", "max_step", "T", "convex", "strongly"), CASES)
def test_printed_bounds_are_the_derived_numbers(c, eta_g, K, max_step, T, convex, strongly):
    assert max_step < bounds.step_limit(c, eta_g, K, 4.0)
    assert bounds.printed_convex(c, eta_g, K, 4.0, max_step, T, 6.0) == pytest.approx(
        convex, rel=1e-12
    )
    assert bounds.printed_strongly(1.0, eta_g, K, max_step, T, 6.0) == pytest.approx(
        strongly, rel=1e-12
    )


@pytest.mark.parametrize(("c", "eta_g", "K", "max_step", "T", "convex", "strongly"), CASES)
def test_the_module_and_the_convergence_tests_mean_the_same_bounds(
    c, eta_g, K, max_step, T, convex, strongly
):
    p = quadratics(7)
    L, mu, D2 = p.smooth, p.convex, p.D2
    step = bounds.smallest_step(L, c, max_step, BETA)
    assert step == low(L, c, max_step)
    assert bounds.printed_convex(c, eta_g, K, L, max_step, T, D2) == printed_convex(
        p, c, eta_g, K, max_step, T
    )
    assert bounds.printed_strongly(mu, eta_g, K, max_step, T, D2) == printed_strongly_convex(
        p, eta_g, K, max_step, T
    )
    assert bounds.convex(c, eta_g, step, T, D2) == proved_convex(p, c, eta_g, max_step, T)
    assert bounds.strongly(mu, eta_g, K, step, T, D2) == proved_strongly_convex(
        p, c, eta_g, K, max_step, T
    )


def test_the_worked_numbers():
    # Theorem 1, c = 0.6, eta_max = 1000, one step from distance 1: 0.6 / (0.2 * 1000); Vaswani's with 2 (1 - c) = 0.8: 3.75
    assert bounds.printed_sgd(0.6, 1000.0, 1, 1.0) == pytest.approx(0.003)
    assert bounds.sgd(0.6, bounds.smallest_step(1.0, 0.6, 1000.0), 1, 1.0) == pytest.approx(3.75)
    assert bounds.sgd_strongly(0.5, 0.2, 2, 3.0) == pytest.approx(0.9**2 * 3)
    # c' = 0.8 - 2 * 2 * 0.1 = 0.4; the limits: 0.6 / (3 * 4 + 8) and 0.6 / (24 + 8)
    assert bounds.reduced_c(0.8, 2.0, 0.1) == pytest.approx(0.4)
    assert bounds.kappa_limit(0.8, 0.1) == pytest.approx(4.0)
    assert bounds.step_limit(0.8, 1.0, 3, 4.0, 2.0) == pytest.approx(0.6 / 20)
    assert bounds.safe_step_limit(0.8, 1.0, 3, 4.0, 2.0) == pytest.approx(0.6 / 32)
    # (1 - 0.5 * 0.1 * (2 - 1/0.8) * 2 / 2)^3 * 4
    assert bounds.strongly_in_the_mean(0.8, 2.0, 0.5, 0.1, 3, 4.0) == pytest.approx(
        (1 - 0.05 * 0.75) ** 3 * 4
    )
    assert bounds.drift(0.5, 5, 0.1, 3.0) == pytest.approx(2 * 0.1 / 0.5 * 3)
    assert bounds.gradients(0.5, 0.1, 3.0) == pytest.approx(60.0)


@given(
    st.floats(0.51, 0.99),
    st.floats(0.1, 1.0),
    st.integers(1, 20),
    st.floats(0.01, 100),
    st.floats(0, 10),
)
def test_the_limits_are_where_their_brackets_vanish(c, eta_g, K, L, kappa):
    for limit, drift in ((bounds.step_limit, K * L), (bounds.safe_step_limit, 2 * K * L)):
        step = limit(c, eta_g, K, L, kappa)
        left = bounds.reduced_c(c, kappa, step) if step > 0 else c - 2 * kappa * step
        assert 2 * left - eta_g - drift * step == pytest.approx(0.0, abs=1e-9)


def test_a_bound_without_a_divisor_is_no_bound():
    assert isinf(bounds.convex(0.5, 1.0, 0.1, 10, 1.0))
    assert isnan(bounds.convex(0.5, 1.0, 0.1, 10, 0.0))
    assert bounds.smallest_step(0.0, 0.5, 3.0) == 3.0
    assert bounds.kappa_limit(0.5, inf) == 0.0


@some
@given(
    st.integers(0, 2**31),
    st.floats(0.55, 0.99),
    st.integers(1, 4),
    st.sampled_from([0.01, 1.0, 20.0]),
    st.floats(0.1, 1),
)
def test_fedsls_meets_the_bound_for_a_strongly_convex_mean_of_flat_clients(
    seed, c, K, max_step, eta_g
):
    p, T = quadratics(seed, convex=0.0), 10
    mu = float(np.linalg.eigvalsh(p.Q.mean(0))[0])
    step = bounds.smallest_step(p.smooth, c, max_step, BETA)
    for iterates, g in (
        (p.run(fedsls(c, max_step, eta_g), K, T), eta_g),
        (p.run(fedexpsls(c, max_step), K, T), 1.0),
    ):
        assert p.distance(iterates) <= bounds.strongly_in_the_mean(c, mu, g, step, T, p.D2) * (
            1 + 1e-12
        )


def test_the_bound_for_a_strongly_convex_mean_needs_c_above_one_half():
    # w^2 / 2 and steps of 1.97: 0.9409 a round for c = 0.01, where 2 - 1/c = -98 makes the "bound" grow; for c = 0.51 the
    # search takes less than 0.98, and (2 - 1/c) low mu / 2 is at most 0.02 of the way
    p = parabola()
    assert bounds.strongly_in_the_mean(0.01, 1.0, 1.0, 1.97, 10, 1.0) > 1
    assert p.distance(p.run(fedsls(0.51, 1.97), 1, 10)) < bounds.strongly_in_the_mean(
        0.51, 1.0, 1.0, bounds.smallest_step(1.0, 0.51, 1.97, BETA), 10, 1.0
    )


@some
@given(st.integers(0, 2**31), st.floats(0.05, 0.95), st.sampled_from([0.01, 1.0, 20.0]))
def test_gradients_are_bounded_by_the_gap_without_convexity_or_interpolation(seed, c, max_step):
    p = quadratics(seed)
    rng = np.random.default_rng(seed)
    apart = Quadratics(p.Q, p.m + rng.standard_normal(p.m.shape), p.w0)
    w = 3 * rng.standard_normal(p.w0.shape)
    squares = ((np.einsum("cij,cj->ci", apart.Q, w - apart.m)) ** 2).sum(1).mean()
    step = bounds.smallest_step(apart.smooth, c, max_step)
    assert squares <= bounds.gradients(c, step, apart.f(w)) * (1 + 1e-12)  # every f_i has minimum 0
