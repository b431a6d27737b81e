"""What batches that had no part in a client's way say of it, where it can be worked out on paper."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.server.rules import HeavyBall, Step
from fedstep.server.steady import Steady
from fedstep.steps.overshoot import Overshoot
from fedstep.steps.pace import Pace


def overshoot_of(
    gradient: Callable[[Tensor], Tensor],
    x: Tensor,
    step: float,
    steps: int,
) -> float:
    """The report of one client that takes `steps` steps against the gradient."""
    part = Overshoot()
    state = part.init(x)
    for _ in range(steps):
        g = gradient(x)
        state = part.seen(x, g, state)
        state = part.moved(torch.tensor(step), state)
        x = x - step * g
    return float(part.message(state)["share"])


def noisy(curvature: float, seed: int = 0) -> Callable[[Tensor], Tensor]:
    """Gradients of a parabola in which every batch is mostly noise."""
    g = torch.Generator().manual_seed(seed)

    def gradient(x: Tensor) -> Tensor:
        return curvature * x + torch.randn(x.shape, generator=g)

    return gradient


def test_a_way_that_goes_on_downhill_has_no_overshoot():
    # far from the minimum, steps of a thousandth of the curvature's: the slope stays as it is
    share = overshoot_of(lambda x: x, torch.full((50,), 3.0), 0.001, 20)
    assert share == pytest.approx(-1, abs=0.02)


@pytest.mark.parametrize("step", [0.5, 1.0, 1.4])
def test_a_parabola_without_noise_leaves_nothing_to_complain_of(step):
    # at 1.4 / curvature every step lands beyond the minimum, and all of them together do not
    assert overshoot_of(lambda x: x, torch.full((50,), 3.0), step, 20) < 0.1


def test_noise_that_is_walked_up_the_walls_is_seen():
    at_minimum = torch.zeros(5000)
    short = overshoot_of(noisy(1.0), at_minimum, 0.002, 20)
    long = overshoot_of(noisy(1.0), at_minimum, 0.05, 20)

    # <g, x_k> is in every coordinate the variance of x_k, eta^2 (1 - q^k) / (1 - q), q = (1 - eta)^2,
    # and -<g_0, x_k> is what is left of the first step, eta (1 - eta)^(k - 1)
    def variance(k: int) -> float:
        return 0.05**2 * (1 - 0.95 ** (2 * k)) / (1 - 0.95**2)

    left = sum(0.05 * 0.95 ** (k - 1) for k in (4, 8, 12, 16))
    expected = sum(variance(k) for k in (4, 8, 12, 16)) / left
    assert short < 0.05
    assert long == pytest.approx(expected, rel=0.2)


def test_a_report_lies_within_its_bounds_before_anybody_checks_it():
    # a secure sum has no server that could; of the first step next to nothing is left here
    assert overshoot_of(noisy(1.0), torch.zeros(5000), 0.5, 20) == 1


def test_what_no_batch_has_measured_counts_for_nothing():
    part = Overshoot()
    message = part.message(part.init(torch.zeros(2, 3)))
    assert message["measured"].tolist() == [0.0, 0.0]
    assert float(part.mean({name: value.sum() for name, value in message.items()})) == 0


def test_only_clients_that_measured_are_in_the_mean():
    sums = {"share": torch.tensor(0.6), "measured": torch.tensor(2.0)}
    assert float(Overshoot().mean(sums)) == pytest.approx(0.3)


def test_a_gradient_that_is_not_finite_says_nothing():
    part = Overshoot(every=1)
    state = part.seen(torch.zeros(2), -torch.ones(2), part.init(torch.zeros(2)))
    state = part.moved(torch.tensor(1.0), state)
    state = part.seen(torch.ones(2), torch.tensor([torch.nan, 1.0]), state)
    assert float(part.message(state)["measured"]) == 0


def test_overshoot_slows_the_pace_and_its_opposite_does_not_hurry_it():
    pace = Pace()
    edge = torch.tensor(1.0)
    x = torch.ones(3)
    begun = pace.after(x, torch.tensor(0.0), edge, pace.init(x))
    agreed = pace.after(x, torch.tensor(-1.0), edge, begun)
    assert agreed["factor"] == 1
    # the rounds agree wholly, but the loss rises behind the clients: 1 - 1 = 0, then 1 - 1.5
    assert pace.after(x, torch.tensor(1.0), edge, begun)["factor"] == 1
    slowed = pace.after(x, torch.tensor(1.5), edge, begun)
    assert float(slowed["log"]) == pytest.approx(-0.5)


def moves(rule: Steady, lengths: list[float]) -> list[float]:
    """How far the server goes for mean deltas of these lengths, all in one direction."""
    x = torch.zeros(2)
    state = rule.init(x)
    far = []
    for length in lengths:
        d = length * torch.tensor([0.6, 0.8])
        step = rule.update(x, d, Aggregate.of(d, {}, torch.tensor(1.0)), state)
        far.append(float((step.x - x).norm()))
        x, state = step.x, step.state
    return far


def test_a_round_that_goes_much_further_than_the_others_is_cut():
    far = moves(Steady(Step()), [1.0, 1.0, 100.0, 1.0])
    assert far == pytest.approx([1.0, 1.0, 3.0, 1.0], rel=1e-6)


def test_lengths_may_grow_from_round_to_round():
    # L <- 0.8 L + 0.2 * 3 L = 1.4 L at the most
    far = moves(Steady(Step()), [1.0, 100.0, 100.0, 100.0])
    assert far == pytest.approx([1.0, 3.0, 4.2, 5.88], rel=1e-6)


def test_rounds_without_a_move_do_not_set_the_measure():
    assert moves(Steady(Step()), [0.0, 0.0, 7.0, 7.0]) == pytest.approx([0, 0, 7, 7], rel=1e-6)


def test_the_rule_inside_keeps_its_step_and_its_state():
    rule = Steady(HeavyBall(step=0.5, beta=0.5))
    assert rule.usual_step == 0.5
    assert moves(rule, [1.0, 1.0, 1.0]) == pytest.approx([0.5, 0.75, 0.875], rel=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Steady(most=0.5), "Steady"),
        (lambda: Steady(memory=1.0), "Steady"),
        (lambda: Overshoot(every=0), "Overshoot"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
