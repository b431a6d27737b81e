"""Conditions, proposals, references and cadences along functions of the step alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan, sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import dot, norm_sq
from fedstep.steps.cadence import Settled
from fedstep.steps.conditions import (
    Armijo,
    Condition,
    Goldstein,
    ImprovedGoldstein,
    StrongWolfe,
    Wolfe,
)
from fedstep.steps.failures import LastTrial, Settle, Skip
from fedstep.steps.polyak import DecreasingPolyak, Polyak
from fedstep.steps.proposals import Bisect, Factors, Secant
from fedstep.steps.references import Grippo, Reference, Smoothed, ZhangHager
from fedstep.steps.resets import Keep, PolyakGuess, Restart
from fedstep.steps.rule import Outcome
from fedstep.steps.search import FIRST_STEP, LineSearch
from fedstep.steps.trial import Trial

SCIPY = Path(__file__).parents[1] / "oracles" / "extracts" / "scipy_wolfe.json"
CONDITIONS = (
    Armijo(0.1),
    Goldstein(0.2),
    ImprovedGoldstein(),
    Wolfe(0.1, 0.5),
    StrongWolfe(0.1, 0.3),
)
EVERY = pytest.mark.parametrize("condition", CONDITIONS, ids=lambda c: type(c).__name__)


@dataclass
class Curves:
    """phi and its ray in one: row i is a polynomial of eta; requests for values and slopes are written down."""

    poly: Tensor  # (..., degree + 1)
    share: Tensor
    round: int = 0
    values: list[list[float]] = field(default_factory=list)
    slopes: list[list[float]] = field(default_factory=list)

    def slope(self, g: Tensor, d: Tensor) -> Tensor:
        return dot(g, d)

    def norm_sq(self, g: Tensor) -> Tensor:
        return norm_sq(g)

    def along(self, x: Tensor, d: Tensor) -> Curves:
        return self

    def __call__(self, eta: Tensor, rows: Tensor | None = None) -> Tensor:
        self.values.append(eta.reshape(-1).tolist())
        return self._at(eta, self.poly if rows is None else self.poly[rows])

    def derivative(self, eta: Tensor, rows: Tensor | None) -> Tensor:
        self.slopes.append(eta.reshape(-1).tolist())
        poly = self.poly if rows is None else self.poly[rows]
        powers = torch.arange(1, poly.shape[-1], dtype=poly.dtype)
        return self._at(eta, poly[..., 1:] * powers)

    def _at(self, eta: Tensor, poly: Tensor) -> Tensor:
        return sum((poly[..., k] * eta**k for k in range(poly.shape[-1])), torch.zeros_like(eta))


def search(
    rule: LineSearch,
    poly: Sequence[float] | Sequence[Sequence[float]],
    dtype: torch.dtype = torch.float64,
) -> tuple[Outcome, dict[str, Tensor], Curves]:
    """A first search along each polynomial, one client or a block; the slope at 0 is the linear coefficient."""
    p = torch.tensor(poly, dtype=dtype)
    root = p[..., 1].abs().sqrt()
    g, d = root.unsqueeze(-1), torch.where(p[..., 1] < 0, -root, root).unsqueeze(-1)
    curves = Curves(p, torch.ones_like(p[..., 0]))
    outcome, after = rule.search(curves, torch.zeros_like(g), p[..., 0], g, d, rule.init(g))
    return outcome, after, curves


def parabola(curvature: float, slope: float = -1.0, at_zero: float = 0.3) -> list[float]:
    return [at_zero, slope, curvature / 2]


def value(poly: Sequence[float], eta: float) -> float:
    return sum(p * eta**k for k, p in enumerate(poly))


def derivative(poly: Sequence[float], eta: float) -> float:
    return sum(k * p * eta ** (k - 1) for k, p in enumerate(poly) if k)


def holds(condition: Condition, poly: Sequence[float], eta: float) -> bool:
    """The condition as printed, to rounding."""
    f, s, new, bent = poly[0], poly[1], value(poly, eta), derivative(poly, eta)
    tiny = 1e-9 * (1 + abs(f) + abs(eta * s))
    if isinstance(condition, ImprovedGoldstein):
        mu = (new - f) / (eta * s)
        return mu * abs(mu - 1) >= condition.beta - 1e-9
    enough = new <= f + condition.c * eta * s + tiny  # type: ignore[attr-defined]
    if isinstance(condition, Goldstein):
        return enough and new >= f + (1 - condition.c) * eta * s - tiny
    if isinstance(condition, Wolfe):
        return enough and bent >= condition.c2 * s - tiny
    if isinstance(condition, StrongWolfe):
        return enough and abs(bent) <= condition.c2 * abs(s) + tiny
    return enough


quartics = st.tuples(
    st.floats(-3, 3), st.floats(-5, -0.1), st.floats(-2, 20), st.floats(-3, 3), st.floats(0.5, 5)
).map(list)


@EVERY
@settings(max_examples=60)
@given(poly=quartics, start=st.floats(1e-3, 50), shrink=st.floats(0.3, 0.95))
def test_an_accepted_step_satisfies_its_condition(
    condition: Condition, poly: list[float], start: float, shrink: float
) -> None:
    rule = LineSearch(
        condition, max_step=inf, start=start, shrink=shrink, trials=400, tolerance=1e-12
    )
    outcome, _, curves = search(rule, poly)
    assert not outcome.failed
    assert holds(condition, poly, float(outcome.step))
    assert len(curves.values) == int(outcome.trials)


@EVERY
@settings(max_examples=30)
@given(polys=st.lists(quartics, min_size=1, max_size=5), start=st.floats(1e-2, 20))
def test_a_block_and_its_clients_one_by_one_give_the_same_numbers(
    condition: Condition, polys: list[list[float]], start: float
) -> None:
    rule = LineSearch(condition, reference=ZhangHager(), max_step=30.0, start=start, trials=60)
    block, after, _ = search(rule, polys)
    for i, poly in enumerate(polys):
        one, kept, _ = search(rule, poly)
        assert torch.equal(one.step, block.step[i])
        assert torch.equal(one.trials, block.trials[i])
        assert one.slopes is not None
        assert block.slopes is not None
        assert torch.equal(one.slopes, block.slopes[i])
        assert all(torch.equal(kept[name], after[name][i]) for name in kept)


@settings(max_examples=60)
@given(curvature=st.floats(0.05, 50), c=st.floats(0.01, 0.49), start=st.floats(1e-3, 100))
def test_goldstein_accepts_an_interval_of_steps_on_a_parabola(
    curvature: float, c: float, start: float
) -> None:
    # f - f(0) = -eta + L eta^2 / 2 lies between -(1 - c) eta and -c eta exactly for 2 c / L <= eta <= 2 (1 - c) / L
    rule = LineSearch(Goldstein(c), max_step=inf, start=start, trials=300)
    outcome, _, _ = search(rule, parabola(curvature))
    step = float(outcome.step)
    assert not outcome.failed
    assert 2 * c / curvature * (1 - 1e-7) <= step <= 2 * (1 - c) / curvature * (1 + 1e-7)


@settings(max_examples=60)
@given(curvature=st.floats(0.05, 50), start=st.floats(1e-3, 100))
def test_the_secant_step_finds_the_minimum_of_a_parabola_in_two_trials(
    curvature: float, start: float
) -> None:
    outcome, _, _ = search(
        LineSearch(ImprovedGoldstein(), max_step=inf, start=start), parabola(curvature)
    )
    assert int(outcome.trials) <= 2
    if int(outcome.trials) == 2:
        assert float(outcome.step) == pytest.approx(1 / curvature, rel=1e-6)


def literal_improved_goldstein(
    poly: list[float], eta: float, beta: float, factor: float
) -> list[float]:
    """The trials of the published search."""
    low, high, tried = 0.0, inf, []
    for k in range(100):
        tried.append(eta)
        mu = (value(poly, eta) - poly[0]) / (eta * poly[1])
        if mu * abs(mu - 1) >= beta:
            break
        low, high = (eta, high) if mu >= 0.5 else (low, eta)
        if k == 0:
            eta = 0.5 * eta / (1 - mu) if mu < 1 else eta * factor
        elif high == inf:
            eta *= factor
        elif low == 0:
            eta /= factor
        else:
            eta = sqrt(low * high)
    return tried


@settings(max_examples=100)
@given(
    poly=quartics, start=st.floats(0.1, 50), beta=st.floats(0.02, 0.24), factor=st.floats(1.5, 10)
)
def test_improved_goldstein_makes_the_published_trials(
    poly: list[float], start: float, beta: float, factor: float
) -> None:
    rule = LineSearch(
        ImprovedGoldstein(beta),
        Keep(),
        max_step=inf,
        start=start,
        proposal=Secant(factor),
        slack=0.0,
    )
    _, _, curves = search(rule, poly)
    expected = literal_improved_goldstein(poly, start, beta, factor)
    assert [eta for (eta,) in curves.values] == pytest.approx(expected, rel=1e-5)


def test_a_step_that_gains_more_than_the_slope_promised_is_good_for_improved_goldstein_and_too_short_for_goldstein() -> (
    None
):
    concave = [0.0, -1.0, -1.0, 0.0, 0.05]  # at 1: f = -1.95, mu = 1.95
    assert (
        float(
            search(LineSearch(ImprovedGoldstein(), Keep(), max_step=inf, start=1.0), concave)[
                0
            ].step
        )
        == 1.0
    )
    assert (
        float(search(LineSearch(Goldstein(), Keep(), max_step=inf, start=1.0), concave)[0].step)
        > 1.0
    )


def test_every_strong_wolfe_step_of_scipy_is_accepted_at_once() -> None:
    cases = json.loads(SCIPY.read_text())["cases"]
    assert {c["kind"] for c in cases} == {"quadratic", "quartic", "valleys"}
    for case in cases:
        for kind in (Wolfe, StrongWolfe):
            rule = LineSearch(
                kind(case["c"], case["c2"]), Restart(), max_step=inf, start=case["step"]
            )
            outcome, _, _ = search(rule, case["poly"])
            assert (float(outcome.step), int(outcome.trials)) == (case["step"], 1)


def test_strong_wolfe_accepts_where_scipy_does_and_by_the_same_inequalities() -> None:
    for case in json.loads(SCIPY.read_text())["cases"]:
        condition = StrongWolfe(case["c"], case["c2"])
        outcome, _, _ = search(LineSearch(condition, max_step=inf, start=1.0), case["poly"])
        assert not outcome.failed
        assert holds(condition, case["poly"], float(outcome.step))


def test_scipy_and_strong_wolfe_agree_on_new_polynomials() -> None:
    optimize = pytest.importorskip(
        "scipy.optimize", reason="scipy is no dependency; the recorded cases were tested"
    )
    for seed in range(20):
        g = torch.Generator().manual_seed(seed)
        a, b, s = (5 * torch.rand(3, generator=g, dtype=torch.float64) + 0.1).tolist()
        poly = [1.0, -s, a, 0.0, b]
        zero, one = np.zeros(1), np.ones(1)
        found = optimize.line_search(
            lambda x, p=poly: value(p, x[0]),
            lambda x, p=poly: np.array([derivative(p, x[0])]),
            zero,
            one,
            c1=0.1,
            c2=0.4,
        )[0]
        condition = StrongWolfe(0.1, 0.4)
        assert holds(condition, poly, found)
        assert holds(
            condition,
            poly,
            float(search(LineSearch(condition, max_step=inf, start=1.0), poly)[0].step),
        )


def test_the_slope_is_asked_for_only_where_the_value_passed_and_is_counted() -> None:
    # curvature 1, slope -1, c 0.1: values pass for eta <= 1.8; slopes -1 + eta pass for |.| <= 0.3
    rule = LineSearch(StrongWolfe(0.1, 0.3), Keep(), max_step=8.0, shrink=0.5)
    outcome, _, curves = search(rule, parabola(1.0))
    assert [e for (e,) in curves.values] == [8.0, 4.0, 2.0, 1.0]
    assert [e for (e,) in curves.slopes] == [1.0]
    assert int(outcome.slopes if outcome.slopes is not None else -1) == 1


def test_only_rows_that_passed_are_asked_for_their_slope() -> None:
    rule = LineSearch(Wolfe(0.1, 0.5), Keep(), max_step=4.0, shrink=0.5)
    outcome, _, curves = search(rule, [parabola(0.2), parabola(1.0), parabola(4.0)])
    # 4 passes for curvature 0.2 only, 2 for none, 1 for curvature 1, 0.5 for none, 0.25 for curvature 4 (slope 0)
    assert curves.slopes == [[4.0], [1.0], [0.25]]
    assert outcome.step.tolist() == [4.0, 1.0, 0.25]
    assert outcome.slopes is not None
    assert outcome.slopes.tolist() == [1, 1, 1]


@EVERY
def test_a_step_too_short_at_the_cap_is_taken(condition: Condition) -> None:
    outcome, _, _ = search(LineSearch(condition, max_step=0.5), [0.0, -1.0, 1e-3])
    assert (float(outcome.step), int(outcome.trials), bool(outcome.failed)) == (0.5, 1, False)


@EVERY
def test_a_direction_of_ascent_is_refused_and_counted(condition: Condition) -> None:
    outcome, _, curves = search(LineSearch(condition), [1.0, 2.0, 1.0])
    assert (float(outcome.step), bool(outcome.failed), curves.values) == (0.0, True, [])


@EVERY
def test_trials_that_are_not_finite_are_too_long(condition: Condition) -> None:
    class Broken(Curves):
        def __call__(self, eta: Tensor, rows: Tensor | None = None) -> Tensor:
            seen = super().__call__(eta, rows)
            return torch.where(eta > 2.5, nan, seen)

    p = torch.tensor(parabola(1.0), dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    rule = LineSearch(condition, max_step=40.0)
    outcome, _ = rule.search(Broken(p, torch.ones(())), 0 * one, p[0], one, -one, rule.init(one))
    assert not outcome.failed
    assert holds(condition, parabola(1.0), float(outcome.step))


def test_a_slope_that_is_not_finite_is_too_long() -> None:
    class Kinked(Curves):
        def derivative(self, eta: Tensor, rows: Tensor | None) -> Tensor:
            return torch.where(eta > 0.5, nan, super().derivative(eta, rows))

    p = torch.tensor(parabola(1.0), dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    rule = LineSearch(StrongWolfe(0.1, 0.9), max_step=1.0, shrink=0.5)
    outcome, _ = rule.search(Kinked(p, torch.ones(())), 0 * one, p[0], one, -one, rule.init(one))
    assert (float(outcome.step), int(outcome.trials)) == (0.5, 2)


@EVERY
def test_noise_near_a_solution_in_float32_is_no_failure(condition: Condition) -> None:
    # around 1 the spacing is 1.2e-7; a slope of -1e-12 asks for far less, and the parabola's own bend is below it too
    flat = [1.0, -1e-12, 1e-13]
    outcome, _, _ = search(LineSearch(condition), flat, torch.float32)
    assert not outcome.failed
    assert float(outcome.step) > 0


@pytest.mark.parametrize("condition", [Goldstein(), ImprovedGoldstein()])
def test_a_drop_that_is_all_rounding_does_not_make_a_step_too_short(condition: Condition) -> None:
    class Rounded(Curves):
        def __call__(self, eta: Tensor, rows: Tensor | None = None) -> Tensor:
            return torch.full_like(eta, 1.0 - 3 * torch.finfo(torch.float32).eps)

    one, f = torch.ones(1), torch.tensor(1.0)
    rule = LineSearch(condition, Keep(), max_step=10.0, start=0.1)
    outcome, _ = rule.search(
        Rounded(f.reshape(1), f), 0 * one, f, 1e-6 * one, -1e-6 * one, rule.init(one)
    )
    assert (float(outcome.step), int(outcome.trials)) == (pytest.approx(0.1), 1)


def test_the_program_repeats_the_cap_until_the_trials_are_used_up_and_stays_there() -> None:
    factors = Factors(2.0, cap=0.5, floor=1e-8)
    rule = LineSearch(
        Goldstein(),
        Keep(),
        max_step=inf,
        start=0.2,
        trials=5,
        failure=LastTrial(),
        proposal=factors,
    )
    outcome, after, curves = search(rule, [0.0, -1.0, 1e-3])
    assert [e for (e,) in curves.values] == [0.2, 0.4, 0.5, 0.5, 0.5]
    assert (float(outcome.step), float(after["step"]), bool(outcome.failed)) == (0.5, 0.5, True)


def test_the_last_trial_is_not_taken_where_its_loss_was_not_finite() -> None:
    rule = LineSearch(max_step=4.0, shrink=0.5, trials=2, failure=LastTrial())
    outcome, after, _ = search(rule, [0.0, -1.0, inf])
    assert (float(outcome.step), float(after["step"]), bool(outcome.failed)) == (0.0, 1.0, True)


def test_bisection_grows_by_its_own_factor_and_halves_once_both_sides_are_known() -> None:
    rule = LineSearch(
        Goldstein(0.45), Keep(), max_step=inf, start=0.1, shrink=0.9, proposal=Bisect(4.0)
    )
    _, _, curves = search(rule, parabola(1.0))  # good: [0.9, 1.1]
    assert [e for (e,) in curves.values] == pytest.approx([0.1, 0.4, 1.6, 1.0])


def trial_of(
    reference: Reference, losses: list[float], slope: float = -1.0
) -> list[tuple[float, float]]:
    """The lines a reference gives for a sequence of losses."""
    state = reference.init(torch.zeros(1, dtype=torch.float64))
    lines = []
    for f in losses:
        line, state = reference(*torch.tensor([f, slope], dtype=torch.float64), state)
        lines.append((float(line.value), float(line.slope)))
    return lines


def test_grippo_compares_with_the_largest_of_the_window() -> None:
    assert [v for v, _ in trial_of(Grippo(2), [5.0, 1.0, 2.0, 0.5, 0.1])] == [
        5.0,
        5.0,
        5.0,
        2.0,
        2.0,
    ]


@pytest.mark.parametrize("reference", [Grippo(2), ZhangHager(), Smoothed(0.5)])
@pytest.mark.parametrize("bad", [nan, inf])
def test_a_loss_that_is_not_finite_is_not_remembered(reference: Reference, bad: float) -> None:
    lines = trial_of(reference, [3.0, bad, 1.0])
    assert lines[2][0] == trial_of(reference, [3.0, 1.0])[1][0]


def test_zhang_hager_is_the_weighted_mean_or_the_loss_where_that_is_larger() -> None:
    # xi 1/2: C = 4, then (4/2 + 1) / (3/2) = 2, then (3/4 * 2 + 7) / (7/4) = 34/7 < 7
    assert [v for v, _ in trial_of(ZhangHager(0.5), [4.0, 1.0, 7.0])] == pytest.approx(
        [4.0, 2.0, 7.0]
    )


@settings(max_examples=50)
@given(
    beta=st.floats(0, 0.99), c=st.floats(0.05, 0.9), eta=st.floats(0.01, 5), f=st.floats(0, 5), new=st.floats(0, 5),
    slope=st.floats(-9, -0.1), gain=st.floats(-1, 3), steep=st.floats(0, 9),
)  # fmt: skip
def test_the_smoothed_line_is_the_inequality_of_the_running_means(
    beta: float, c: float, eta: float, f: float, new: float, slope: float, gain: float, steep: float
) -> None:
    state = {
        "gain": torch.tensor(gain, dtype=torch.float64),
        "steepness": torch.tensor(steep, dtype=torch.float64),
    }
    at = torch.tensor([f, slope], dtype=torch.float64)
    line, _ = Smoothed(beta)(*at, state)
    h, s = beta * gain + (1 - beta) * (f - new), beta * steep - (1 - beta) * slope
    if abs(h - c * eta * s) > 1e-9:
        trial = Trial(
            torch.tensor(eta).double(),
            torch.tensor(new).double(),
            *at,
            line.value,
            line.slope,
            torch.zeros(()),
        )
        assert bool(trial.below(c)) == (h >= c * eta * s)


def test_the_reference_relaxes_the_decrease_but_not_what_is_too_short() -> None:
    # after a loss of 9, Goldstein compares with 9 above and with f itself below
    rule = LineSearch(Goldstein(0.25), Restart(), Grippo(3), max_step=8.0)
    _, after, _ = search(rule, [9.0, -1.0, 0.5])
    p = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    high, _ = rule.search(Curves(p, torch.ones(())), 0 * one, p[0], one, -one, after)
    # 1 - e + e^2 / 2 <= 9 - e / 4 up to 4.82: 8 * 0.9^5 = 4.72 is the sixth trial; 1.5 is the longest without the memory
    assert (float(high.step), int(high.trials), bool(high.failed)) == (
        pytest.approx(8 * 0.9**5),
        6,
        False,
    )
    # at 1 the loss is 1/2: above f - 3/4, far below 9 - 3/4; not too short
    near = replace(rule, start=1.0)
    good, _ = near.search(Curves(p, torch.ones(())), 0 * one, p[0], one, -one, after)
    assert (float(good.step), int(good.trials)) == (1.0, 1)


def test_between_searches_the_guess_is_taken_untested_and_not_remembered() -> None:
    rule = LineSearch(Armijo(), Keep(), max_step=8.0, cadence=Settled(5, warmup=2))
    p = torch.tensor(parabola(1.0), dtype=torch.float64)
    one, state = torch.ones(1, dtype=torch.float64), rule.init(torch.ones(1, dtype=torch.float64))
    state = {**state, "cadence.steps": torch.tensor(9.0), "cadence.since": torch.tensor(0.0)}
    state = {
        **state,
        "cadence.fast": torch.tensor(1.0),
        "cadence.slow": torch.tensor(1.0),
        "step": torch.tensor(0.7),
    }
    taken = []
    for _ in range(6):
        outcome, state = rule.search(Curves(p, torch.ones(())), 0 * one, p[0], one, -one, state)
        taken.append((round(float(outcome.step), 6), int(outcome.trials), bool(outcome.failed)))
    assert taken == [(0.7, 0, False)] * 4 + [(0.7, 1, False), (0.7, 0, False)]


@pytest.mark.parametrize(
    ("fast", "slow", "pause"),
    [(1.0, 1.0, 10), (1.05, 1.0, 10), (1.0, 1.05, 10), (1.25, 1.0, 4), (1.0, 1.25, 4)],
)
def test_the_pause_between_searches_depends_on_the_ratio_of_the_means_either_way(
    fast: float, slow: float, pause: int
) -> None:
    zero = torch.zeros((), dtype=torch.float64)
    state = {"steps": zero + 50, "since": zero, "fast": zero + fast, "slow": zero + slow}
    steps = 0
    due = torch.tensor(False)
    while not due:
        (due, state), steps = Settled(10)(zero, state), steps + 1
    assert steps == pause
    assert float(state["since"]) == 0.0


def test_a_direction_of_ascent_is_refused_between_searches_too() -> None:
    rule = LineSearch(Armijo(), Keep(), cadence=Settled(5, warmup=0))
    one = torch.ones(1, dtype=torch.float64)
    state = {**rule.init(one), "cadence.since": torch.tensor(0.0)}
    state |= {"cadence.fast": torch.tensor(1.0), "cadence.slow": torch.tensor(1.0)}
    p = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)
    outcome, _ = rule.search(Curves(p, torch.ones(())), 0 * one, p[0], one, one, state)
    assert (float(outcome.step), bool(outcome.failed)) == (0.0, True)


def test_a_loss_at_its_lower_bound_is_not_searched() -> None:
    rule = LineSearch(Armijo(), PolyakGuess(lower=0.3))
    outcome, after, curves = search(rule, parabola(1.0, at_zero=0.3))
    assert (float(outcome.step), bool(outcome.failed), curves.values) == (0.0, False, [])
    assert float(after["step"]) == FIRST_STEP


POLYAK = pytest.mark.parametrize(
    "rule", [Polyak(max_step=1.0), Polyak(reset=Keep(), start=1.0), DecreasingPolyak()]
)


@POLYAK
@pytest.mark.parametrize(
    ("f", "g", "d"),
    [
        (nan, 1.0, -1.0),
        (inf, 1.0, -1.0),
        (1.0, nan, nan),
        (1.0, 1.0, 1.0),
        (0.0, 1.0, -1.0),
        (1.0, 1e-9, -1e-9),
        (-1.0, 1.0, -1.0),
    ],
)
def test_polyak_takes_no_step_where_there_is_none_to_take_and_goes_on_afterwards(
    rule: Polyak | DecreasingPolyak, f: float, g: float, d: float
) -> None:
    one = torch.ones(1, dtype=torch.float64)
    phi = Curves(torch.zeros(2), torch.ones(()))
    outcome, state = rule.search(
        phi, 0 * one, torch.tensor(f).double(), g * one, d * one, rule.init(one)
    )
    assert float(outcome.step) == 0.0
    outcome, _ = rule.search(phi, 0 * one, torch.tensor(0.2).double(), one, -one, state)
    assert float(outcome.step) > 0.1


def test_polyak_reaches_the_lower_bound_of_a_line() -> None:
    one = torch.ones(1, dtype=torch.float64)
    rule = Polyak(1.0, lower=0.5)
    outcome, _ = rule.search(
        Curves(torch.zeros(2), torch.ones(())),
        0 * one,
        torch.tensor(2.0),
        3 * one,
        -3 * one,
        rule.init(one),
    )
    assert 2.0 - 9.0 * float(outcome.step) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Goldstein(0.6), lambda: Goldstein(0.0), lambda: ImprovedGoldstein(0.25), lambda: ImprovedGoldstein(0.0),
        lambda: Wolfe(0.5, 0.4), lambda: StrongWolfe(0.1, 1.0), lambda: Wolfe(nan, 0.9), lambda: Grippo(-1),
        lambda: ZhangHager(1.5), lambda: Smoothed(1.0), lambda: Bisect(1.0), lambda: Factors(0.5), lambda: Factors(2.0, 1.0, 1.0),
        lambda: Secant(1.0), lambda: PolyakGuess(0.0), lambda: PolyakGuess(least=0.0), lambda: Polyak(0.0),
        lambda: Polyak(max_step=0.0), lambda: Polyak(reset=Keep()), lambda: Polyak(start=2.0, max_step=1.0),
        lambda: Polyak(eps=-1.0),
        lambda: DecreasingPolyak(max_step=inf), lambda: Settled(0), lambda: LineSearch(condition=0.1),  # type: ignore[arg-type]
        lambda: LineSearch(reference=3), lambda: LineSearch(reset=2), lambda: replace(LineSearch(), cadence=5),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_an_invalid_argument_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        make()


def test_a_search_gives_up_where_too_short_and_too_long_meet_and_takes_the_short_one() -> None:
    class Cliff(Curves):
        def __call__(self, eta: Tensor, rows: Tensor | None = None) -> Tensor:
            return torch.where(eta > 0.8, 9.0, super().__call__(eta, rows))

    p = torch.tensor([0.0, -1.0, 0.01], dtype=torch.float64)  # too short up to 0.8, too long beyond
    one = torch.ones(1, dtype=torch.float64)
    for failure, expected in ((Settle(), (0.8, 0.8)), (Skip(), (0.0, 4.0))):
        rule = LineSearch(Goldstein(), Keep(), max_step=8.0, start=4.0, shrink=0.5, failure=failure)
        outcome, after = rule.search(
            Cliff(p, torch.ones(())), 0 * one, p[0], one, -one, rule.init(one)
        )
        assert bool(outcome.failed)
        assert int(outcome.trials) < 20
        assert (float(outcome.step), float(after["step"])) == pytest.approx(expected, rel=1e-3)
