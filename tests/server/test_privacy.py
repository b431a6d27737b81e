"""User-level privacy: no client changes a sum by more than its limit, and the noise is as said."""

from __future__ import annotations

from dataclasses import replace
from math import exp, sqrt

import pytest
import torch
from fakes import PLAN, SEED, SIZES, clients, model

from fedstep import InputError, build, fit
from fedstep.core.aggregate import Aggregate
from fedstep.data.federation import Federation
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.run.simulate import Simulation
from fedstep.server.privacy import ASIDE, UserPrivacy

METHODS = ("fedavg", "fedsls", "fedexpsls", "fedpace")


def summed(guard, deltas, state, message=None):
    """The sums of a round, as an algorithm makes them."""
    total = None
    for place, delta in enumerate(deltas):
        weight = torch.tensor(1.0)
        checked = guard.check(delta, weight, state)
        said = {name: value[place] for name, value in (message or {}).items()}
        spoken = guard.check_message(said, {}, weight, state)
        one = Aggregate.of(
            checked.delta,
            spoken.message,
            weight,
            clipped=checked.clipped,
            tallies={**checked.tallies, **spoken.tallies},
        )
        total = one if total is None else total + one
    return total


@pytest.mark.parametrize("factor", [0.1, 1.0, 1e6])
def test_a_client_changes_no_sum_by_more_than_its_sensitivity(factor):
    guard = UserPrivacy(start=2.0)
    generator = torch.Generator().manual_seed(0)
    deltas = [torch.randn(7, generator=generator) for _ in range(5)]
    message = {"step.log": torch.randn(5, generator=generator) * 9}
    state = guard.init(deltas[0])
    before = summed(guard, deltas[:4], state, message)
    deltas[4] = deltas[4] * factor
    after = summed(guard, deltas, state, message)
    assert float((after.delta - before.delta).norm()) <= 2.0 * (1 + 1e-5)
    assert float((after.message["step.log"] - before.message["step.log"]).abs()) <= 2.0 * (1 + 1e-5)
    for name, value in after.tallies.items():
        assert float((value - before.tallies[name]).abs()) <= 0.5 + 1e-5


def test_the_noise_of_all_sums_together_is_that_of_one_mechanism():
    """sum over sums of (sensitivity / deviation)^2 = 1 / noise^2, measured over many seeds."""
    x = torch.zeros(200)
    deltas = [torch.full((200,), 0.01)] * 4
    message = {"a": torch.zeros(4, 200)}
    draws = {"delta": [], "a": [], "spread": []}
    for seed in range(300):
        guard = UserPrivacy(noise=1.5, start=3.0, seed=seed)
        state = guard.init(x)
        total = summed(guard, deltas, state, message)
        noised = guard.settle(total, state).aggregate
        draws["delta"].append(noised.delta - total.delta)
        draws["a"].append(noised.message["a"] - total.message["a"])
        draws["spread"].append(noised.norm_sq / 9.0)
    deviation = {name: torch.stack(list(values)).std() for name, values in draws.items()}
    part = 1.5 * sqrt(2 / (1 - ASIDE))
    assert float(deviation["delta"]) == pytest.approx(3.0 * part, rel=0.02)
    assert float(deviation["a"]) == pytest.approx(3.0 * part, rel=0.02)
    # three counts, each of which a client changes by a half
    count = 0.5 * 1.5 * sqrt(3 / ASIDE)
    budget = 2 * (1 / part) ** 2 + 3 * (0.5 / count) ** 2
    assert budget == pytest.approx(1 / 1.5**2)
    # cut off at 0, where the sum of squares ends: half of a normal distribution
    assert float(torch.stack(draws["spread"]).max()) > count


def test_the_limit_follows_the_quantile():
    guard = UserPrivacy(noise=1e-6, quantile=0.5, rate=0.5, start=1.0)
    deltas = [torch.full((1,), float(length)) for length in (1, 2, 3, 4, 5, 6, 7, 8, 9)]
    state = guard.init(deltas[0])
    first = guard.settle(summed(guard, deltas, state), state).state
    # one of nine is within the limit
    assert float(first["limit.delta"]) == pytest.approx(exp(-0.5 * (1 / 9 - 0.5)), rel=1e-3)
    for _ in range(100):
        state = guard.settle(summed(guard, deltas, state), state).state
    assert 4.0 <= float(state["limit.delta"]) <= 6.0


def run(method, executor, guard, rounds=4):
    algorithm = replace(build(method), guard=guard)
    task = Task(algorithm, model(), Federation.of(clients()), PLAN, SEED)
    simulation = Simulation(task, len(SIZES), executor=executor)
    for server, _ in simulation.run(simulation.begin(rounds), Store(), rounds):
        last = server
    return last.x


@pytest.mark.parametrize("method", METHODS)
def test_runs_repeat_differ_by_the_seed_of_the_noise_and_stay_finite(method):
    x = run(method, Sequential(), UserPrivacy(noise=0.3))
    assert bool(torch.isfinite(x).all())
    assert torch.equal(run(method, Sequential(), UserPrivacy(noise=0.3)), x)
    assert not torch.equal(run(method, Sequential(), UserPrivacy(noise=0.3, seed=1)), x)
    # a block is the same mechanism; the last bits are those of another cut
    assert torch.allclose(run(method, Cohort(3), UserPrivacy(noise=0.3)), x, atol=1e-2)


def test_what_noise_cannot_cover_is_refused():
    with pytest.raises(InputError, match="asks clients for gradients first"):
        replace(build("fedlin"), guard=UserPrivacy())
    with pytest.raises(InputError, match="weighs more than 1"):
        fit(model().module, clients(), rounds=1, weighting="samples", guard=UserPrivacy())
    with pytest.raises(InputError, match="noise=0"):
        UserPrivacy(noise=0)


def test_a_client_without_a_usable_update_counts_as_nothing():
    guard = UserPrivacy(noise=1e-9)
    deltas = [torch.ones(2) * 0.1, torch.full((2,), float("nan"))]
    state = guard.init(deltas[0])
    settled = guard.settle(summed(guard, deltas, state), state).aggregate
    assert float(settled.weight) == 2
    assert torch.allclose(settled.mean(settled.delta), torch.tensor([0.05, 0.05]))


def test_the_report_says_which_epsilon_was_spent(tmp_path):
    pytest.importorskip("dp_accounting")
    guard = UserPrivacy(noise=2.0, seed=12345)
    result = fit(
        model().module,
        clients(),
        "fedexpsls",
        rounds=3,
        per_round=3,
        guard=guard,
        out=tmp_path / "run",
    )
    page = (tmp_path / "run" / "report.html").read_text()
    assert "user-level differential privacy of the model after 3 rounds" in page
    assert "epsilon" in str(result)
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            assert b"12345" not in path.read_bytes()


def test_the_accountant_is_checked_against_the_closed_form_of_one_gaussian():
    """Without sampling, T rounds of noise z are one Gaussian mechanism of noise z / sqrt(T)."""
    pytest.importorskip("dp_accounting")
    from scipy.stats import norm

    from fedstep.run.privacy import privacy_spent

    spent = privacy_spent(noise=8.0, clients=100, per_round=100, rounds=16, delta=1e-5)
    mean = sqrt(16) / 8.0  # between the two normal distributions, in deviations

    def delta_at(epsilon):
        return norm.cdf(mean / 2 - epsilon / mean) - exp(epsilon) * norm.cdf(
            -mean / 2 - epsilon / mean
        )

    # Renyi's bound is above the exact one, and not by much
    assert delta_at(spent.open) <= 1e-5
    assert delta_at(0.75 * spent.open) > 1e-5
    fewer = privacy_spent(noise=8.0, clients=100, per_round=10, rounds=16, delta=1e-5)
    assert fewer.secret < spent.secret
    assert fewer.open == spent.open
