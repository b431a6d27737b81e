"""The extrapolated server step eta_g = clip(mean |D_i|^2 / (2 (|D|^2 + eps)), 1, max_step), D the weighted mean of the D_i."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.server.rules import Extrapolate

many = settings(max_examples=100)
BARE = Extrapolate(eps=0.0, min_step=0.0)  # the ratio itself


def cohort(seed: int, spread: float) -> tuple[Tensor, Tensor]:
    """Deltas (C, d) around a common one, and unequal weights (C,)."""
    rng = np.random.default_rng(seed)
    clients, dim = int(rng.integers(1, 8)), int(rng.integers(1, 6))
    deltas = rng.standard_normal(dim) + spread * rng.standard_normal((clients, dim))
    return torch.tensor(deltas), torch.tensor(rng.uniform(0.1, 30.0, clients))


cohorts = st.builds(cohort, st.integers(0, 2**31), st.sampled_from([0.0, 0.1, 1.0, 30.0]))


def eta_g(
    rule: Extrapolate, deltas: Tensor, weights: Tensor | None = None, rounds: int = 1
) -> float:
    """The step of the last of some rounds with the same deltas; also checks where the server went with it."""
    weights = torch.ones(len(deltas), dtype=torch.float64) if weights is None else weights
    agg = Aggregate.of(deltas, {}, weights)
    d, x = agg.mean(agg.delta), torch.ones(deltas.shape[1], dtype=deltas.dtype)
    state = rule.init(x)
    for _ in range(rounds):
        step = rule.update(x, d, agg, state)
        state = step.state
        assert torch.equal(step.x, x + step.eta_g * d)
    return float(step.eta_g)


def ratio(deltas: Tensor, weights: Tensor, eps: float = 0.0) -> float:
    """By the formula, in numpy."""
    p = (weights / weights.sum()).numpy()
    mean = p @ deltas.numpy()
    return float(p @ (deltas.numpy() ** 2).sum(1) / (2 * (mean @ mean + eps)))


@many
@given(cohorts, st.sampled_from([0.0, 1e-3, 0.1]))
def test_eta_g_is_the_formula(both: tuple[Tensor, Tensor], eps: float) -> None:
    assert eta_g(Extrapolate(eps), *both) == pytest.approx(max(1.0, ratio(*both, eps)), rel=1e-12)


@many
@given(cohorts, st.floats(0.0, 10.0))
def test_eta_g_is_at_least_one(both: tuple[Tensor, Tensor], eps: float) -> None:
    assert eta_g(Extrapolate(eps), *both) >= 1.0


@many
@given(cohorts)
def test_the_ratio_without_eps_is_at_least_one_half_for_any_weights(
    both: tuple[Tensor, Tensor],
) -> None:
    # |sum p_i D_i|^2 <= sum p_i |D_i|^2 (Jensen), provided both means use the same weights
    assert eta_g(BARE, *both) >= 0.5 * (1 - 1e-12)


def test_jensen_needs_the_same_weights_in_both_means() -> None:
    # weighted mean of the deltas, plain mean of the squares: D = (1, 0) weighted (9, 1) gives (1 + 0) / 2 / (2 * 0.9^2) = 0.309
    deltas, weights = (
        torch.tensor([[1.0], [0.0]], dtype=torch.float64),
        torch.tensor([9.0, 1.0], dtype=torch.float64),
    )
    mixed = float((deltas**2).mean() / (2 * ((weights @ deltas) / weights.sum()) ** 2))
    assert mixed < 0.5 <= eta_g(BARE, deltas, weights)


@many
@given(cohorts)
def test_the_ratio_is_one_half_and_eta_g_one_when_all_deltas_are_equal(
    both: tuple[Tensor, Tensor],
) -> None:
    deltas, weights = both
    same = deltas[:1].expand_as(deltas)
    assert eta_g(BARE, same, weights) == pytest.approx(0.5, rel=1e-12)
    assert eta_g(Extrapolate(0.0), same, weights) == 1.0


@many
@given(cohorts)
def test_eta_g_is_one_for_a_single_client(both: tuple[Tensor, Tensor]) -> None:
    assert eta_g(Extrapolate(0.0), both[0][:1], both[1][:1]) == 1.0


@many
@given(cohorts, st.floats(1e-3, 1e3))
def test_only_the_proportions_of_the_weights_count(
    both: tuple[Tensor, Tensor], factor: float
) -> None:
    deltas, weights = both
    assert eta_g(Extrapolate(), deltas, factor * weights) == pytest.approx(
        eta_g(Extrapolate(), deltas, weights), rel=1e-9
    )


def test_orthogonal_deltas_of_m_clients_give_half_of_m() -> None:
    # |D|^2 = (1/m^2) m = 1/m, mean of squares 1: ratio m / 2
    assert eta_g(Extrapolate(0.0), torch.eye(8, dtype=torch.float64)) == pytest.approx(
        4.0, rel=1e-12
    )


def test_deltas_that_cancel_without_eps_leave_the_server_where_it_is_with_step_one() -> None:
    assert (
        eta_g(Extrapolate(0.0), torch.tensor([[1.0, -2.0], [-1.0, 2.0]], dtype=torch.float64))
        == 1.0
    )


@many
@given(cohorts, st.floats(1.0, 20.0))
def test_max_step_clamps_and_changes_nothing_below_it(
    both: tuple[Tensor, Tensor], top: float
) -> None:
    free = eta_g(Extrapolate(0.0), *both)
    assert eta_g(Extrapolate(0.0, max_step=top), *both) == min(free, top)


def test_max_step_is_active_on_deltas_that_nearly_cancel() -> None:
    # D = (1.1 - 1) / 2 = 0.05, mean of squares (1.21 + 1) / 2 = 1.105: ratio 1.105 / (2 * 0.0025) = 221
    deltas = torch.tensor([[1.1], [-1.0]], dtype=torch.float64)
    assert eta_g(Extrapolate(0.0), deltas) == pytest.approx(221.0, rel=1e-10)
    assert eta_g(Extrapolate(0.0, max_step=5.0), deltas) == 5.0


@many
@given(cohorts, st.floats(1e-6, 1.0), st.floats(0.01, 100.0))
def test_deltas_times_s_and_eps_times_s_squared_give_the_same_step(
    both: tuple[Tensor, Tensor], eps: float, s: float
) -> None:
    # the ratio has no unit, eps that of a squared length: an eps fit for one model is not fit for another
    deltas, weights = both
    scaled = eta_g(Extrapolate(eps * s**2, min_step=0.0), s * deltas, weights)
    assert scaled == pytest.approx(eta_g(Extrapolate(eps, min_step=0.0), deltas, weights), rel=1e-9)


@many
@given(cohorts, st.floats(1e-6, 1.0), st.floats(1.5, 10.0))
def test_a_larger_eps_gives_a_smaller_ratio(
    both: tuple[Tensor, Tensor], eps: float, factor: float
) -> None:
    assume(ratio(*both) < 1e6)
    assert eta_g(Extrapolate(factor * eps, min_step=0.0), *both) < eta_g(
        Extrapolate(eps, min_step=0.0), *both
    )


@many
@given(cohorts, st.floats(1e-3, 1.0), st.floats(0.5, 1.0), st.integers(1, 4))
def test_eps_is_decayed_once_before_every_round(
    both: tuple[Tensor, Tensor], eps: float, decay: float, rounds: int
) -> None:
    found = eta_g(Extrapolate(eps, min_step=0.0, decay=decay), *both, rounds=rounds)
    assert found == pytest.approx(ratio(*both, eps * decay**rounds), rel=1e-12)


@many
@given(cohorts, st.floats(1e-3, 1.0))
def test_eps_per_client_is_eps_times_the_clients_of_the_round(
    both: tuple[Tensor, Tensor], eps: float
) -> None:
    found = eta_g(Extrapolate(eps, min_step=0.0, eps_per_client=True), *both)
    assert found == pytest.approx(ratio(*both, eps * len(both[0])), rel=1e-12)
