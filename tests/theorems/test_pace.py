"""What a common step and a pace must do on problems that can be solved on paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import exp, log

import pytest
import torch
from torch import Tensor

from fedstep import zoo
from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.local.conditioned import Conditioned
from fedstep.local.directions import Chain, Clip, Steepest
from fedstep.messages import Reply
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.server.onward import Grafted, Onward
from fedstep.server.rules import Step
from fedstep.steps.common import CommonStep
from fedstep.steps.pace import Pace

KEPT = torch.tensor(0.0)  # the overshoot of clients that end where the loss is level
EDGE = torch.tensor(1.0)  # a longest step that never changes


def noisy_quadratic(rounds: int, curvature: float = 0.7) -> tuple[Tensor, Tensor]:
    """Paces and mean squared coordinates of a walk x <- x - s (curvature x + noise), a step a round.

    Without the pace the walk would never come closer than its noise. Many coordinates: the cosine
    of two directions of noise, which says nothing, is then near 0.
    """
    g = torch.Generator().manual_seed(0)
    x = torch.full((5000,), 2.0)
    pace = Pace()
    state = pace.init(x)
    paces, errors = [], []
    for _ in range(rounds):
        noise = torch.randn(len(x), generator=g)
        delta = -state["factor"] * (curvature * x + noise)
        x = x + delta
        state = pace.after(delta, KEPT, EDGE, state)
        paces.append(state["factor"])
        errors.append(x.square().mean())
    return torch.stack(paces), torch.stack(errors)


def test_on_a_noisy_quadratic_the_pace_falls_as_one_over_t():
    paces, _ = noisy_quadratic(rounds=800)
    times_t = [float(paces[t - 1]) * t for t in (100, 200, 400, 800)]
    # s_t t tends to a constant, about 2.4; a pace that stayed would double it from one to the next
    assert max(times_t) < 1.3 * min(times_t)


def test_on_a_noisy_quadratic_the_mean_square_error_falls_as_one_over_t():
    _, errors = noisy_quadratic(rounds=800)
    times_t = [float(errors[t - 1]) * t for t in (100, 200, 400, 800)]
    assert max(times_t) < 1.3 * min(times_t)


def test_without_noise_the_pace_stays_1_below_the_stability_limit():
    curvature = torch.tensor([0.1, 0.5, 0.99])  # every step of length 1 goes less than all the way
    x = torch.ones(3)
    pace = Pace()
    state = pace.init(x)
    for _ in range(100):
        delta = -state["factor"] * curvature * x
        x = x + delta
        state = pace.after(delta, KEPT, EDGE, state)
        assert state["factor"] == 1


def test_beyond_the_stability_limit_the_pace_falls_until_the_walk_converges():
    curvature = 2.6  # a step of length 1 throws x to -1.6 x
    x = torch.ones(3)
    pace = Pace()
    state = pace.init(x)
    for _ in range(100):
        delta = -state["factor"] * curvature * x
        x = x + delta
        state = pace.after(delta, KEPT, EDGE, state)
    assert state["factor"] * curvature < 2
    assert x.norm() < 0.1


def paced(rounds: int, edge_of: Callable[[int, float], float]) -> list[float]:
    """Paces of rounds whose deltas have a cosine of -0.1 with the mean of those before.

    `edge_of` tells the T of a round from its number and the pace of the clients in it.
    """
    pace = Pace()
    state = pace.init(torch.zeros(2))
    paces = []
    for t in range(rounds):
        delta = torch.tensor([1.0, 0.0])
        if t > 0:
            ahead = state["mean"] / state["mean"].norm()
            aside = torch.stack([-ahead[1], ahead[0]])
            delta = -0.1 * ahead + 0.99**0.5 * aside
        edge = torch.tensor(edge_of(t, float(state["factor"])))
        state = pace.after(delta, KEPT, edge, state)
        paces.append(float(state["factor"]))
    return paces


def test_where_curvature_does_not_change_rounds_that_disagree_slow_the_pace_without_end():
    # a loses gain * 0.1 = 0.05 a round, from the second on
    assert paced(41, lambda t, s: 1.0)[-1] == pytest.approx(exp(-0.05 * 40), rel=1e-4)


def test_a_pace_that_leads_to_sharper_places_falls_no_further():
    # where T is s itself, the mean of T falls behind it: s has passed exp(-slack) when that gets there
    paces = paced(400, lambda t, s: s)
    assert exp(-1.0) < paces[-1] < exp(-0.3)
    assert paces[100:] == [paces[100]] * 300


def test_a_fallen_edge_does_not_outvote_clients_that_go_too_far():
    pace = Pace()
    x = torch.ones(3)
    state = pace.after(x, KEPT, torch.tensor(1.0), pace.init(x))
    for t in range(10):
        # T is a hundredth of what it was at full pace; rounds disagree, and ways end uphill
        state = pace.after((-1) ** t * x, torch.tensor(1.0), torch.tensor(0.01), state)
    assert state["factor"] < exp(-2)


def test_an_edge_that_was_lower_at_full_pace_says_nothing():
    # T has doubled since: what it loses of that again is no sharpening
    edges = [1.0] * 10 + [2.0] * 10 + [1.2] * 20
    assert paced(40, lambda t, s: edges[t]) == paced(40, lambda t, s: 1.0)


def test_rounds_that_measure_no_edge_leave_it_as_it_was():
    edges = [0.0, 0.0, 1.0, 0.0, 1.0] * 8
    assert paced(40, lambda t, s: edges[t]) == paced(40, lambda t, s: 1.0)


# runs


def loss(x: Tensor, batch: Batch) -> Tensor:
    return (batch.inputs @ x - batch.targets) ** 2 / 2


def clients(input_scale: float = 1.0, loss_scale: float = 1.0) -> list[tuple[Tensor, Tensor]]:
    """Six clients; the last one has inputs so short that alone it would take steps 400 times longer."""
    g = torch.Generator().manual_seed(3)
    truth = torch.randn(4, generator=g, dtype=torch.float64)
    made = []
    for i in range(6):
        inputs = torch.randn(12, 4, generator=g, dtype=torch.float64)
        if i == 5:
            inputs = inputs / 20
        targets = inputs @ truth + 0.1 * torch.randn(12, generator=g, dtype=torch.float64)
        made.append((input_scale * inputs * loss_scale**0.5, targets * loss_scale**0.5))
    return made


def trained(algorithm, data, start, rounds: int = 12, function=loss):
    model = FunctionModel(function, start)
    task = Task(algorithm, model, Federation.of(data), Plan(batch=4, steps=5))
    simulation = Simulation(task, per_round=4, executor=Sequential())
    return list(simulation.run(simulation.begin(rounds), Store(), rounds))


START = torch.full((4,), 0.5, dtype=torch.float64)


def test_the_loss_may_have_any_unit():
    # losses times 1,024: steps a 1,024th, the same models; a power of two keeps the bits
    one = trained(zoo.fedpace(), clients(), START)
    other = trained(zoo.fedpace(), clients(loss_scale=1024.0), START)
    assert torch.allclose(one[-1][0].readout, other[-1][0].readout, rtol=1e-9, atol=0)
    assert one[-1][1].steps[2] == pytest.approx(1024 * other[-1][1].steps[2], rel=1e-9)


def test_inputs_and_parameters_may_have_any_unit():
    # inputs times 32 and parameters by 32 are the same model
    one = trained(zoo.fedpace(), clients(), START)
    other = trained(zoo.fedpace(), clients(input_scale=32.0), START / 32)
    assert torch.allclose(one[-1][0].readout, 32 * other[-1][0].readout, rtol=1e-9, atol=0)


def test_one_input_of_another_unit_is_not_the_same_problem():
    # what is not invariant: a single column in another unit changes the shape of the problem
    scale = torch.tensor([32.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    other = [(inputs * scale, targets) for inputs, targets in clients()]
    one = trained(zoo.fedpace(), clients(), START)[-1][0].readout
    two = trained(zoo.fedpace(), other, START / scale)[-1][0].readout * scale
    assert not torch.allclose(one, two, rtol=1e-3)


def test_a_column_of_another_unit_costs_less_with_scales_than_without():
    # the scales see that one coordinate's gradients are 32 times the others'
    scale = torch.tensor([32.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    data = [(inputs * scale, targets) for inputs, targets in clients()]
    plain = replace(zoo.fedpace(), local=replace(zoo.fedpace().local, direction=Steepest()))

    def loss_after(algorithm) -> float:
        x = trained(algorithm, data, START / scale, rounds=20)[-1][0].readout
        return sum(float(((a @ x - y) ** 2).mean()) for a, y in data)

    assert loss_after(zoo.fedpace()) < 0.5 * loss_after(plain)


def test_scales_are_the_mean_squares_of_clients_that_speak_equally_loud():
    rule = Conditioned(tau=0.1, memory=0.9)
    x = torch.zeros(2, 4)
    state = rule.begin(x, rule.shared_init(x[0]))
    loud = torch.tensor([[4.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 4000.0]])
    way, state = rule.apply(loud, x, state)
    assert torch.allclose(way, loud / 1.1)  # the first round goes along d itself
    agg = Aggregate.of(x, rule.message(state), torch.ones(2))
    shared = rule.fold(rule.shared_init(x[0]), agg.message, agg)
    # a mean of 1, and a thousand times the gradient says no more than the gradient
    assert torch.allclose(shared["second"], torch.tensor([2.0, 0.0, 0.0, 2.0]))
    again = rule.fold(shared, {"squares": torch.tensor([0.0, 4.0, 0.0, 0.0])}, agg)
    assert torch.allclose(again["second"], torch.tensor([1.8, 0.4, 0.0, 1.8]))


def test_gradients_of_zero_or_nan_leave_the_scales_as_they_are():
    rule = Conditioned()
    x = torch.zeros(3)
    shared = rule.shared_init(x)
    for silent in (torch.zeros(3), torch.full((3,), torch.nan), torch.full((3,), torch.inf)):
        _, state = rule.apply(silent, x, rule.begin(x, shared))
        agg = Aggregate.of(x, rule.message(state), torch.tensor(1.0))
        assert agg.clients == 1
        assert torch.equal(rule.fold(shared, agg.message, agg)["second"], torch.ones(3))


def test_what_no_honest_client_would_say_is_brought_back_into_its_bounds():
    algorithm = zoo.fedpace()
    x = torch.zeros(4, dtype=torch.float64)
    server = algorithm.init(x)
    server.shared["step.common"] = torch.tensor(0.5, dtype=torch.float64)
    sent = algorithm.broadcast(server)
    lie = {
        "step.log": torch.tensor(-1e30, dtype=torch.float64),
        "step.counted": torch.tensor(1e9, dtype=torch.float64),
        "step.overshoot.share": torch.tensor(-1e9, dtype=torch.float64),
        "step.overshoot.measured": torch.tensor(1e9, dtype=torch.float64),
        "direction.squares": torch.tensor([1e30, -1e30, 0.0, 0.0], dtype=torch.float64),
    }
    sane = torch.tensor(True)
    counted = algorithm.count(Reply(x, lie, torch.tensor(1.0), sane), sent).message
    assert float(counted["step.log"]) == pytest.approx(log(0.5 / 1e4))
    assert float(counted["step.counted"]) == 1
    assert float(counted["step.overshoot.share"]) == -1
    assert float(counted["step.overshoot.measured"]) == 1
    assert counted["direction.squares"].tolist() == [4.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("wrong", [{"gain": -1.0}, {"memory": 1.0}, {"slack": -0.1}])
def test_a_pace_out_of_range_is_one_line(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(InputError, match=rf"Pace\({name}={value}\): .*; (try|0)"):
        Pace(**wrong)


@pytest.mark.parametrize("beta", [-0.1, 1.0, 1.5])
def test_a_momentum_out_of_range_is_one_line(beta):
    with pytest.raises(InputError, match=rf"HeavyBall\(beta={beta}\)"):
        zoo.fedpace(beta=beta)


def test_scales_may_stand_in_a_chain():
    alone = trained(zoo.fedpace(), clients(), START)[-1][0].readout
    local = zoo.fedpace().local
    chained = replace(local, direction=Chain((Conditioned(), Clip(1e9))))
    inside = trained(replace(zoo.fedpace(), local=chained), clients(), START)[-1][0].readout
    assert torch.allclose(alone, inside, rtol=1e-9, atol=0)


def test_no_client_steps_further_than_the_common_step():
    rows = trained(zoo.fedpace(), clients(), START)
    for (before, _), (_, row) in pairwise(rows):
        common = before.shared["step.common"] * before.shared["step.pace.factor"]
        assert row.steps[-1] <= float(common) * (1 + 1e-12)


def test_from_the_second_round_on_an_easy_client_goes_no_further_than_the_others():
    # alone, the last client of `clients` would take steps about 400 times longer
    rows = trained(zoo.fedpace(), clients(), START)
    for _, row in rows[1:]:
        shortest, longest = row.steps[0], row.steps[-1]
        assert longest <= 30 * shortest


def test_a_common_step_far_below_the_edge_doubles_and_near_it_creeps():
    rule = CommonStep()
    x = torch.zeros(3)
    shared = {**rule.shared_init(x), "common": torch.tensor(1.0)}

    def common_after(measured: float) -> float:
        # four clients whose geometric mean it is
        logs = torch.tensor(4 * log(measured))
        message = {
            "log": logs,
            "counted": torch.tensor(4.0),
            "overshoot.share": torch.tensor(0.0),
            "overshoot.measured": torch.tensor(4.0),
        }
        agg = Aggregate.of(torch.ones(3), message, torch.tensor(1.0))
        return float(rule.fold(shared, message, agg)["common"])

    assert common_after(5.0) == 2.0
    assert common_after(1.9) == pytest.approx(1.9)
    assert common_after(1.5) == pytest.approx(1.05)
    assert common_after(0.2) == pytest.approx(0.2)


def test_a_search_that_ends_in_rounding_after_refusals_says_nothing_about_the_edge():
    # the loss jumps up wherever x moves at all, so every trial is refused until x + eta d is x
    def jump(x: Tensor, batch: Batch) -> Tensor:
        moved = (x.detach() != START).double().sum().clamp(max=1.0)
        slope = (x - x.detach()).sum()
        return (1 + 1e-3 * moved + slope).expand(len(batch.targets))

    server, row = trained(zoo.fedpace(), clients(), START, rounds=1, function=jump)[-1]
    assert row.failed == 4 * 5  # all steps of all clients
    assert server.shared["step.common"] == 0  # still unknown, where 1e-18 would be a disaster
    assert torch.equal(server.x, START)


def test_a_server_goes_on_while_rounds_agree_and_stops_when_they_do_not():
    rule = Onward(Step(), most=4.0, gain=0.5)
    d = torch.tensor([3.0, 4.0])
    # two clients that went five times as far each, mostly apart: averaging has taken much
    apart = torch.tensor([-24.0, 18.0])
    agg = Aggregate.of(torch.stack([d + apart, d - apart]), {}, torch.ones(2))
    x, state = torch.zeros(2), rule.init(torch.zeros(2))
    steps = []
    for sign in (1, 1, 1, 1, 1, -1, 1, -1):
        step = rule.update(x, sign * d, agg, state)
        x, state = step.x, step.state
        steps.append(float(step.eta_g.log()))
    # b: 0, then 1/2 more a round up to log 4 = 1.386, then 1/2 less, not below 0
    expected = [0.0, 0.5, 1.0, 1.386294, 1.386294, 0.886294, 0.386294, 0.0]
    assert steps == pytest.approx(expected, abs=1e-6)


def test_a_server_goes_no_further_than_the_spread_of_the_clients():
    rule = Onward(Step(), most=4.0, gain=10.0)
    d = torch.tensor([3.0, 4.0])
    for spread in (1.0, 2.5, 100.0):
        # |d + apart|^2 = |d|^2 + |apart|^2, for apart at right angles to d
        apart = (spread - 1) ** 0.5 * torch.tensor([-4.0, 3.0])
        agg = Aggregate.of(torch.stack([d + apart, d - apart]), {}, torch.ones(2))
        first = rule.update(torch.zeros(2), d, agg, rule.init(torch.zeros(2)))
        second = rule.update(first.x, d, agg, first.state)
        assert second.eta_g == pytest.approx(min(spread, 4.0), rel=1e-6)


def test_a_grafted_step_has_the_length_of_the_delta():
    rule = Grafted()
    d = torch.tensor([3.0, 0.004])
    agg = Aggregate.of(d, {}, torch.tensor(1.0))
    step = rule.update(torch.zeros(2), d, agg, rule.init(torch.zeros(2)))
    assert step.x.norm() == pytest.approx(float(d.norm()), rel=1e-6)
    # the short coordinate counts for more than it did
    assert step.x[1] / step.x[0] > 10 * d[1] / d[0]


def test_blocks_and_single_clients_take_the_same_steps():
    data = clients()
    model = FunctionModel(loss, START)
    ends = []
    for executor in (Sequential(), Cohort(block=4)):
        task = Task(zoo.fedpace(), model, Federation.of(data), Plan(batch=4, steps=5))
        simulation = Simulation(task, per_round=4, executor=executor)
        *_, (server, _) = simulation.run(simulation.begin(8), Store(), 8)
        ends.append(server.readout)
    assert torch.allclose(ends[0], ends[1], rtol=1e-9, atol=1e-12)
