"""A guard keeps one client from taking the model, and leaves honest cohorts as they are."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedstep import FunctionModel, InputError, build, zoo
from fedstep.algorithm import Algorithm
from fedstep.core.aggregate import Aggregate
from fedstep.core.vec import lift
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.run.simulate import Simulation
from fedstep.server.guards import Open
from fedstep.server.norm_limit import NormLimit

ATTACKER = 17  # the number of its samples, which nobody else has
METHODS = (
    "fedavg(step=0.2)",
    "fedsls(max_step=1.0)",
    "fedexpsls(max_step=1.0)",
    "scaffold(step=0.2)",
)


@dataclass(frozen=True)
class Attacked(Algorithm):
    """The algorithm with one client that multiplies its delta, or all that it sends besides."""

    factor: float = 1.0
    message_factor: float = 1.0

    def reply(self, sent, memory, forward, batches, samples):
        done = super().reply(sent, memory, forward, batches, samples)
        return replace(done, reply=self.hostile(done.reply, self.factor))

    def probe_reply(self, sent, memory, forward, batches, samples):
        done = super().probe_reply(sent, memory, forward, batches, samples)
        return replace(done, reply=self.hostile(done.reply, self.message_factor))

    def hostile(self, reply, factor):
        attacker = reply.samples == ATTACKER
        delta = reply.delta * torch.where(attacker, factor, 1.0).unsqueeze(-1)
        message = {}
        for name, value in reply.message.items():
            message[name] = value * lift(torch.where(attacker, self.message_factor, 1.0), value)
        return replace(reply, delta=delta, message=message)


def federation():
    generator = torch.Generator().manual_seed(3)
    truth = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    clients = []
    for client in range(10):
        size = ATTACKER if client == 4 else 20 + client
        x = torch.randn(size, 3, generator=generator, dtype=torch.float64)
        noise = 0.1 * torch.randn(size, generator=generator, dtype=torch.float64)
        clients.append((x, x @ truth + noise))
    return Federation.of(clients), truth


def error_after(spec, guard, factor=1.0, executor=None, rounds=15, message_factor=1.0):
    """How far from the truth a run ends, and how many clients its guard shortened."""
    plain = build(spec)
    parts = {field.name: getattr(plain, field.name) for field in fields(Algorithm)}
    hostile = Attacked(**parts, factor=factor, message_factor=message_factor)
    attacked = replace(hostile, guard=guard)
    data, truth = federation()
    model = FunctionModel(
        lambda x, batch: (batch.inputs @ x - batch.targets) ** 2 / 2,
        torch.zeros(3, dtype=torch.float64),
    )
    task = Task(attacked, model, data, Plan(batch=8, steps=5))
    run = Simulation(task, 10, executor=executor or Sequential())
    ends = list(run.run(run.begin(rounds), Store(), rounds))
    x = ends[-1][0].readout
    return float((x - truth).norm()), sum(row.clipped for _, row in ends), x


@pytest.mark.parametrize("spec", METHODS)
@pytest.mark.parametrize("factor", [1e3, 1e6, -10.0])
def test_one_attacker_of_ten_does_not_take_the_model(spec, factor):
    honest, _, _ = error_after(spec, Open())
    attacked, _, _ = error_after(spec, Open(), factor)
    guarded, clipped, _ = error_after(spec, NormLimit(), factor)
    assert not attacked < 1.0
    assert guarded < honest + 0.2
    assert clipped >= 10


@pytest.mark.parametrize("spec", METHODS)
@pytest.mark.parametrize("executor", [Sequential(), Cohort(4)], ids=["sequential", "cohort"])
def test_a_cohort_without_outliers_keeps_its_bits(spec, executor):
    _, _, plain = error_after(spec, Open(), executor=executor, rounds=4)
    _, clipped, guarded = error_after(spec, NormLimit(factor=1e3), executor=executor, rounds=4)
    assert torch.equal(plain, guarded)
    assert clipped == 0


def settled(norms, guard, state=None):
    deltas = torch.tensor(norms, dtype=torch.float64).unsqueeze(-1)
    weight = torch.ones(len(norms), dtype=torch.float64)
    state = state or guard.init(torch.zeros(1, dtype=torch.float64))
    checked = guard.check(deltas, weight, state)
    total = Aggregate.of(
        checked.delta,
        {},
        weight,
        clipped=checked.clipped,
        tallies=checked.tallies,
    )
    return guard.settle(total, state)


@given(st.lists(st.floats(1e-20, 1e20), min_size=5, max_size=30))
def test_the_limit_follows_the_lower_median_from_counts_alone(norms):
    guard = NormLimit(factor=2.0)
    limit = float(settled(norms, guard).state["limit"])
    lower_median = sorted(norms)[(len(norms) - 1) // 2]
    # a bin is an eighth of an octave wide
    assert 2 * lower_median * (1 - 1e-9) <= limit <= 2 * lower_median * 2 ** (1 / 8) * (1 + 1e-9)


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=5, max_size=20),
    st.floats(1e-2, 1e2),
)
def test_no_delta_is_longer_than_the_limit(norms, limit):
    guard = NormLimit()
    state = {"limit": torch.tensor(limit, dtype=torch.float64)}
    deltas = torch.tensor(norms, dtype=torch.float64).unsqueeze(-1)
    checked = guard.check(deltas, torch.ones(len(norms)), state)
    assert (checked.delta.abs() <= limit * (1 + 1e-12)).all()
    untouched = deltas.squeeze(-1) <= limit
    assert torch.equal(checked.delta[untouched], deltas[untouched])
    assert torch.equal(checked.clipped, ~untouched)


def test_in_the_first_round_everybody_goes_the_medians_length_if_there_is_an_outlier():
    result = settled([1.0, 1.0, 1.0, -1.0, 1e9], NormLimit())
    length = float(result.state["limit"]) / 2
    assert float(result.aggregate.delta) == pytest.approx(3 * length)
    assert result.aggregate.clipped == 1


def test_few_clients_are_left_alone():
    result = settled([1.0, 1.0, 1.0, 1e9], NormLimit())
    assert float(result.aggregate.delta) == 1e9 + 3
    assert float(result.state["limit"]) == float("inf")


def spread(total):
    mean = total.delta / total.weight
    return float(total.norm_sq / total.weight) / float(mean.square().sum())


def test_a_round_with_a_shortened_delta_is_extrapolated_up_to_a_bound():
    state = {"limit": torch.tensor(3.0, dtype=torch.float64)}
    total = settled([1.0, -1.0, 1.0, -1.0, 1.0, 1e6], NormLimit(), state).aggregate
    assert total.clipped == 1
    assert spread(total) == pytest.approx(NormLimit().most_spread)


def test_deltas_that_one_client_could_have_cancelled_are_not_extrapolated_beyond_it():
    state = {"limit": torch.tensor(3.0, dtype=torch.float64)}
    total = settled([1.0, -1.0, 1.0, -1.0, 1.0, -1.0001], NormLimit(), state).aggregate
    assert total.clipped == 0
    assert spread(total) == pytest.approx((6 / 2) ** 2)
    # with one more of six the mean is long enough
    plain = settled([1.0, -1.0, 1.0, -1.0, 1.0, 1.0], NormLimit(), state).aggregate
    assert float(plain.norm_sq) == 6.0


def test_the_longer_beyond_the_limit_the_less_is_left():
    state = {"limit": torch.tensor(1.0, dtype=torch.float64)}
    lengths = torch.tensor([1.0, 2.0, 10.0, 1e6], dtype=torch.float64).unsqueeze(-1)
    left = NormLimit().check(lengths, torch.ones(4), state).delta.squeeze(-1)
    assert left.tolist() == pytest.approx([1.0, 0.5, 0.1, 1e-6])


def test_a_cohort_that_stands_still_does_not_forbid_the_next_to_move():
    state = {"limit": torch.tensor(3.0, dtype=torch.float64)}
    assert float(settled([0.0] * 6, NormLimit(), state).state["limit"]) == 3.0


def test_a_sum_that_overflows_leaves_the_model_where_it_is():
    algorithm = zoo.fedexp()
    x = torch.zeros(2)
    server = algorithm.init(x, 3)
    huge = Aggregate.of(torch.full((4, 2), 1e19), {}, torch.full((4,), 50.0))
    assert huge.rejected == 4  # the square alone is finite, 50 times it is not
    largest = Aggregate.of(torch.full((3, 2), 3e18), {}, torch.full((3,), 10.0))
    assert largest.clients == 3
    after = algorithm.absorb(server, largest + largest, 8)
    assert torch.isfinite(after.x).all()


@pytest.mark.parametrize(
    ("setting", "bad"),
    [("factor", 1.0), ("factor", float("nan")), ("few", 2), ("most_spread", 0.5)],
)
def test_wrong_settings_are_named(setting, bad):
    with pytest.raises(InputError, match=rf"NormLimit\({setting}="):
        NormLimit(**{setting: bad})


def test_a_guard_is_a_slot_of_every_method():
    assert build("fedsls(guard=NormLimit(factor=3.0))").guard == NormLimit(3.0)
    with pytest.raises(InputError, match="guard"):
        replace(zoo.fedavg(), guard=NormLimit)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_update_that_is_not_finite_is_rejected_and_not_measured(bad):
    result = settled([1.0, 1.0, 1.0, 1.0, 1.0, bad], NormLimit())
    assert (result.aggregate.clients, result.aggregate.rejected) == (5, 1)
    assert float(result.aggregate.delta) == 5.0
    assert 2.0 <= float(result.state["limit"]) <= 2.0 * 2 ** (1 / 8)
