"""The line search on hand-made functions of the step alone, where every trial can be counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, log, nan

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedstep.algorithm import Algorithm, Broadcast, Update
from fedstep.core.errors import InputError
from fedstep.core.vec import State, dot, norm_sq
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Executor, Sequential, Store, Task
from fedstep.local.solver import LocalSolver
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.server.sampling import Given
from fedstep.steps.conditions import Armijo
from fedstep.steps.failures import Nudge, Skip
from fedstep.steps.resets import Grow, Keep, Reset, Restart
from fedstep.steps.rule import Outcome, Phi, StepRule
from fedstep.steps.search import LineSearch

RESETS = pytest.mark.parametrize(
    "reset", [Keep(), Restart(), Grow(2.0)], ids=lambda r: type(r).__name__
)
Value = Callable[[Tensor, Tensor], Tensor]  # of (eta, row numbers)


@dataclass
class Line:
    """phi and its ray in one: values depend on eta and the row only, and every request is written down."""

    value: Value
    share: Tensor
    round: int = 0
    asked: list[tuple[list[float], list[int] | None]] = field(default_factory=list)

    def slope(self, g: Tensor, d: Tensor) -> Tensor:
        return dot(g, d)

    def norm_sq(self, g: Tensor) -> Tensor:
        return norm_sq(g)

    def along(self, x: Tensor, d: Tensor) -> Line:
        return self

    def __call__(self, eta: Tensor, rows: Tensor | None = None) -> Tensor:
        self.asked.append((eta.reshape(-1).tolist(), None if rows is None else rows.tolist()))
        return self.value(
            eta, torch.arange(eta.numel()).reshape(eta.shape) if rows is None else rows
        )

    @property
    def etas(self) -> list[float]:
        """The trials of a single client."""
        return [eta[0] for eta, _ in self.asked]


def below(limits: Sequence[float] | float) -> Value:
    """Values that Armijo accepts exactly for eta <= the row's limit: a deep drop there, a rise beyond."""
    limit = torch.as_tensor(limits, dtype=torch.float64)

    def value(eta: Tensor, row: Tensor) -> Tensor:
        return torch.where(eta <= (limit[row] if limit.dim() else limit), -1e9, 1e9).to(eta.dtype)

    return value


def search(
    rule: LineSearch,
    value: Value,
    *,
    f: float | Sequence[float] = 1.0,
    g: float = 1.0,
    d: float | None = None,
    last: float | None = None,
    share: float = 1.0,
    dtype: torch.dtype = torch.float64,
) -> tuple[Outcome, Tensor, Line]:
    """One search at a point with value f, gradient (g,) and direction (d,), for one client or, f a list, for a block."""
    loss = torch.tensor(f, dtype=dtype)
    gradient = torch.full((*loss.shape, 1), g, dtype=dtype)
    direction = torch.full_like(gradient, -g if d is None else d)
    line = Line(value, torch.full_like(loss, share))
    state = rule.init(gradient)
    if last is not None:
        state = {**state, "step": torch.full_like(loss, last)}
    before = {name: v.clone() for name, v in state.items()}
    outcome, after = rule.search(line, torch.zeros_like(gradient), loss, gradient, direction, state)
    assert all(torch.equal(before[name], v) for name, v in state.items()), (
        "the state given was changed"
    )
    return outcome, after["step"], line


# Where a search begins


def test_keep_first_tries_the_last_step() -> None:
    _, _, line = search(LineSearch(reset=Keep(), max_step=10.0), below(inf), last=3.0, share=0.5)
    assert line.etas == [3.0]


def test_restart_first_tries_the_start_value() -> None:
    _, _, line = search(
        LineSearch(reset=Restart(), max_step=10.0, start=4.0), below(inf), last=3.0, share=0.5
    )
    assert line.etas == [4.0]


def test_grow_first_tries_the_last_step_times_factor_to_the_batch_share() -> None:
    # 3 * 16^(1/4) = 6
    _, _, line = search(
        LineSearch(reset=Grow(16.0), max_step=10.0), below(inf), last=3.0, share=0.25
    )
    assert line.etas == [pytest.approx(6.0, rel=1e-15)]


def test_grow_per_first_tries_the_last_step_times_factor_to_one_over_per() -> None:
    # 3 * 8^(1/3) = 6, whatever the share
    _, _, line = search(
        LineSearch(reset=Grow(8.0, per=3), max_step=10.0), below(inf), last=3.0, share=0.5
    )
    assert line.etas == [pytest.approx(6.0, rel=1e-15)]


@pytest.mark.parametrize(
    ("reset", "last"), [(Keep(), 12.0), (Grow(2.0), 9.0), (Grow(2.0, per=2), 9.0)]
)
def test_first_trial_is_clamped_to_max_step(reset: Reset, last: float) -> None:
    outcome, remembered, line = search(
        LineSearch(reset=reset, max_step=10.0), below(inf), last=last
    )
    assert line.etas == [10.0]
    assert (float(outcome.step), float(remembered)) == (10.0, 10.0)


@RESETS
def test_first_step_of_a_round_tries_max_step_first(reset: Reset) -> None:
    _, _, line = search(LineSearch(reset=reset, max_step=7.0), below(1.0), share=0.3)
    assert line.etas[0] == 7.0


def test_without_a_largest_step_growth_is_not_clamped() -> None:
    rule = LineSearch(reset=Grow(2.0, per=1), max_step=inf, start=1.0)
    outcome, _, line = search(rule, below(inf))
    assert (line.etas, float(outcome.step)) == ([2.0], 2.0)
    assert search(rule, below(inf), last=1e6)[2].etas == [2e6]


# The trials


def test_an_acceptable_first_trial_is_taken_unshrunk() -> None:
    outcome, remembered, line = search(LineSearch(reset=Keep(), max_step=10.0), below(10.0))
    assert (line.etas, float(outcome.step), int(outcome.trials)) == ([10.0], 10.0, 1)
    assert float(remembered) == 10.0
    assert not outcome.failed


@settings(max_examples=20)
@given(
    limit=st.floats(1e-3, 20.0),
    shrink=st.floats(0.3, 0.95),
    start=st.floats(0.1, 10.0),
)
def test_trials_are_start_times_powers_of_shrink_up_to_the_first_acceptable(
    limit: float, shrink: float, start: float
) -> None:
    rule = LineSearch(reset=Keep(), max_step=10.0, shrink=shrink, start=start, trials=1000)
    outcome, remembered, line = search(rule, below(limit))
    expected = [start]
    while expected[-1] > limit:
        expected.append(expected[-1] * shrink)
    assert line.etas == pytest.approx(expected, rel=1e-12)
    assert int(outcome.trials) == len(expected)
    assert float(outcome.step) == float(remembered) == line.etas[-1]


def test_accepts_at_equality_of_the_armijo_condition() -> None:
    # ref + c eta <g, d> = 1 - 0.25 * 2 * 1 = 0.5, all exact in binary
    rule = LineSearch(Armijo(0.25), Keep(), max_step=2.0, slack=0.0)
    assert float(search(rule, lambda eta, row: torch.full_like(eta, 0.5))[0].step) == 2.0
    above = torch.nextafter(
        torch.tensor(0.5, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
    )
    assert float(search(rule, lambda eta, row: above.expand_as(eta))[0].step) < 2.0


def test_right_side_uses_the_slope_along_the_direction_and_not_the_gradient_norm() -> None:
    # g = 2, d = -0.5: <g, d> = -1, so with c = 0.5 and eta = 1 the bound is 1 - 0.5 = 0.5 (with |g|^2 it would be -1)
    rule = LineSearch(Armijo(0.5), Keep(), max_step=1.0)
    outcome, _, _ = search(rule, lambda eta, row: torch.full_like(eta, 0.5), g=2.0, d=-0.5)
    assert (float(outcome.step), int(outcome.trials)) == (1.0, 1)


@pytest.mark.parametrize("bad", [nan, inf])
def test_nan_and_infinite_trial_values_count_as_too_long(bad: float) -> None:
    def value(eta: Tensor, row: Tensor) -> Tensor:
        return torch.where(eta > 1.0, bad, -1e9)

    outcome, _, line = search(LineSearch(reset=Keep(), max_step=8.0, shrink=0.5), value)
    assert line.etas == [8.0, 4.0, 2.0, 1.0]
    assert float(outcome.step) == 1.0
    assert not outcome.failed


def test_a_step_accepted_in_the_last_trial_allowed_is_no_failure() -> None:
    rule = LineSearch(reset=Keep(), max_step=8.0, shrink=0.5, trials=4)
    outcome, _, _ = search(rule, below(1.0))
    assert (float(outcome.step), int(outcome.trials), bool(outcome.failed)) == (1.0, 4, False)


def test_a_search_makes_no_more_trials_than_allowed() -> None:
    outcome, _, line = search(
        LineSearch(reset=Keep(), max_step=8.0, shrink=0.5, trials=3), below(1.0)
    )
    assert line.etas == [8.0, 4.0, 2.0]
    assert (float(outcome.step), int(outcome.trials), bool(outcome.failed)) == (0.0, 3, True)


# When nothing is found


@pytest.mark.parametrize("failure", [Skip(), Nudge()])
@pytest.mark.parametrize("loss", [nan, inf])
def test_a_loss_that_is_not_finite_takes_no_step_and_is_counted_as_failed(
    loss: float, failure: Skip | Nudge
) -> None:
    rule = LineSearch(reset=Keep(), max_step=8.0, failure=failure)
    outcome, remembered, line = search(rule, below(inf), f=loss, last=2.0)
    assert (line.asked, float(outcome.step), int(outcome.trials), bool(outcome.failed)) == (
        [],
        0.0,
        0,
        True,
    )
    assert float(remembered) == 8.0


def test_a_gradient_that_is_not_finite_takes_no_step_and_is_counted_as_failed() -> None:
    outcome, _, line = search(LineSearch(), below(inf), g=nan)
    assert (line.asked, float(outcome.step), bool(outcome.failed)) == ([], 0.0, True)


@pytest.mark.parametrize("failure", [Skip(), Nudge()])
def test_a_direction_of_ascent_takes_no_step_and_is_counted_as_failed(
    failure: Skip | Nudge,
) -> None:
    outcome, _, line = search(LineSearch(failure=failure), below(inf), g=1.0, d=1.0)
    assert (line.asked, float(outcome.step), bool(outcome.failed)) == ([], 0.0, True)


def test_a_failed_search_takes_no_step_and_the_next_one_begins_at_the_start_value() -> None:
    rule = LineSearch(reset=Keep(), max_step=8.0, start=4.0, shrink=0.5, trials=3)
    outcome, remembered, _ = search(rule, below(0.0), last=1.0)
    assert (float(outcome.step), bool(outcome.failed)) == (0.0, True)
    assert search(rule, below(inf), last=float(remembered))[2].etas == [4.0]


def test_nudge_takes_its_tiny_step_and_remembers_it() -> None:
    rule = LineSearch(reset=Keep(), max_step=8.0, shrink=0.5, trials=3, failure=Nudge(1e-6))
    outcome, remembered, _ = search(rule, below(0.0))
    assert (float(outcome.step), bool(outcome.failed), float(remembered)) == (1e-6, True, 1e-6)


def test_nudge_can_remember_the_shrunk_trial_instead() -> None:
    # trials 8, 4, 2; each rejection shrinks, the last one too: 1 is remembered
    rule = LineSearch(
        reset=Keep(), max_step=8.0, shrink=0.5, trials=3, failure=Nudge(1e-6, remember_trial=True)
    )
    outcome, remembered, _ = search(rule, below(0.0))
    assert (float(outcome.step), bool(outcome.failed), float(remembered)) == (1e-6, True, 1.0)


def test_a_flat_line_under_a_real_slope_fails_after_all_trials() -> None:
    outcome, _, line = search(LineSearch(), lambda eta, row: torch.ones_like(eta))
    assert (len(line.asked), float(outcome.step), bool(outcome.failed)) == (100, 0.0, True)


# Where there is nothing to do


@pytest.mark.parametrize("g", [0.0, 0.99e-8])
def test_a_zero_gradient_makes_no_trial_and_no_move_and_is_no_failure(g: float) -> None:
    outcome, remembered, line = search(LineSearch(reset=Keep()), below(inf), g=g, last=0.5)
    assert (line.asked, float(outcome.step), int(outcome.trials), bool(outcome.failed)) == (
        [],
        0.0,
        0,
        False,
    )
    assert float(remembered) == 0.5


def test_a_gradient_just_above_the_threshold_is_searched() -> None:
    assert int(search(LineSearch(), below(inf), g=1.01e-8)[0].trials) == 1


def test_a_constant_loss_leaves_the_client_where_it_is() -> None:
    model = FunctionModel(
        lambda x, batch: 3.0 + 0.0 * x.sum() + 0.0 * batch.targets,
        torch.ones(2, dtype=torch.float64),
    )
    federation = Federation.of([(torch.zeros(4, 1), torch.zeros(4))])
    task = Task(Algorithm(LocalSolver(LineSearch())), model, federation, Plan(batch=2, steps=5))
    simulation = Simulation(task, 1)
    ((server, report),) = simulation.run(simulation.begin(1), Store(), 1)
    assert server.x.tolist() == [1.0, 1.0]
    assert (report.failed, report.forwards, report.backwards) == (0, 5, 5)


# Rounding


@pytest.mark.parametrize("ulps", [0, 1, 4])
def test_slack_accepts_a_flat_function_in_float32(ulps: int) -> None:
    # around 1 the spacing is eps; the slope asks for a decrease of 0.1 * 1e-12, far below it
    value = torch.tensor(1.0 + ulps * torch.finfo(torch.float32).eps, dtype=torch.float32)
    outcome, _, _ = search(
        LineSearch(), lambda eta, row: value.expand_as(eta), g=1e-6, dtype=torch.float32
    )
    assert (float(outcome.step), int(outcome.trials)) == (1.0, 1)


def test_slack_is_four_units_in_the_last_place_and_not_five() -> None:
    value = torch.tensor(1.0 + 5 * torch.finfo(torch.float32).eps, dtype=torch.float32)
    assert search(LineSearch(), lambda eta, row: value.expand_as(eta), g=1e-6, dtype=torch.float32)[
        0
    ].failed


def test_without_slack_a_rise_of_one_unit_in_the_last_place_is_refused() -> None:
    value = torch.tensor(1.0 + torch.finfo(torch.float32).eps, dtype=torch.float32)
    rule = LineSearch(slack=0.0)
    assert search(rule, lambda eta, row: value.expand_as(eta), g=1e-6, dtype=torch.float32)[
        0
    ].failed


def test_slack_forgives_nothing_where_the_decrease_asked_for_is_above_the_noise() -> None:
    # the first trial asks for c eta |<g, d>| = 0.1 * 80 eps and gets 5: refused, though 4 eps of slack would make up for
    # it. The second asks for 4 eps
    eps = torch.finfo(torch.float32).eps
    value = torch.tensor(1.0 - 5 * eps, dtype=torch.float32)
    outcome, _, _ = search(
        LineSearch(shrink=0.5),
        lambda eta, row: value.expand_as(eta),
        g=(80 * eps) ** 0.5,
        dtype=torch.float32,
    )
    assert (float(outcome.step), int(outcome.trials)) == (0.5, 2)


def test_slack_does_not_depend_on_the_sign_of_the_loss() -> None:
    value = torch.tensor(-1.0 + 4 * torch.finfo(torch.float32).eps, dtype=torch.float32)
    outcome, _, _ = search(
        LineSearch(), lambda eta, row: value.expand_as(eta), f=-1.0, g=1e-6, dtype=torch.float32
    )
    assert float(outcome.step) == 1.0


# Blocks


def test_only_rows_that_are_still_searching_are_evaluated() -> None:
    # limits 8, 2, 4 with halving from 8: row 0 is done after trial 1, row 2 after trial 2, row 1 after trial 3
    outcome, _, line = search(
        LineSearch(reset=Keep(), max_step=8.0, shrink=0.5), below([8.0, 2.0, 4.0]), f=[1.0] * 3
    )
    assert line.asked == [([8.0] * 3, None), ([4.0, 4.0], [1, 2]), ([2.0], [1])]
    assert outcome.step.tolist() == [8.0, 2.0, 4.0]
    assert outcome.trials.tolist() == [1, 3, 2]


def test_a_row_with_a_nan_loss_is_never_evaluated_and_leaves_the_others_alone() -> None:
    rule = LineSearch(reset=Keep(), max_step=8.0, shrink=0.5)
    outcome, remembered, line = search(rule, below([8.0, 8.0, 4.0]), f=[1.0, nan, 1.0])
    assert [rows for _, rows in line.asked] == [[0, 2], [2]]
    assert outcome.step.tolist() == [8.0, 0.0, 4.0]
    assert outcome.failed.tolist() == [False, True, False]
    assert remembered.tolist() == [8.0, 8.0, 4.0]


@RESETS
@pytest.mark.parametrize("largest", [False, True])
@settings(max_examples=20)
@given(
    limits=st.lists(st.floats(1e-6, 20.0) | st.just(0.0), min_size=1, max_size=5),
    last=st.floats(1e-3, 10.0),
    share=st.floats(0.01, 1.0),
)
def test_a_block_and_its_clients_one_by_one_give_the_same_numbers(
    reset: Reset, largest: bool, limits: list[float], last: float, share: float
) -> None:
    rule = LineSearch(reset=reset, largest=largest, trials=30, shrink=0.7)
    block, remembered, _ = search(
        rule, below(limits), f=[1.0] * len(limits), last=last, share=share
    )
    for i, limit in enumerate(limits):
        one, kept, _ = search(rule, below(limit), last=last, share=share)
        assert one.step.shape == one.trials.shape == one.failed.shape == ()
        assert torch.equal(one.step, block.step[i])
        assert torch.equal(one.trials, block.trials[i])
        assert torch.equal(one.failed, block.failed[i])
        assert torch.equal(kept, remembered[i])


# The largest acceptable step


@settings(max_examples=20)
@given(limit=st.floats(1e-3, 9.99), tolerance=st.floats(1e-10, 0.5))
def test_largest_finds_the_boundary_to_the_tolerance(limit: float, tolerance: float) -> None:
    rule = LineSearch(largest=True, tolerance=tolerance, max_step=10.0, trials=500)
    step = float(search(rule, below(limit))[0].step)
    assert step <= limit <= step * (1 + tolerance) * (1 + 1e-15)


@settings(max_examples=20)
@given(limit=st.floats(1e-3, 9.99), start=st.floats(1e-2, 10.0))
def test_largest_finds_the_boundary_from_any_start(limit: float, start: float) -> None:
    rule = LineSearch(largest=True, tolerance=1e-6, max_step=10.0, start=start, trials=500)
    step = float(search(rule, below(limit))[0].step)
    assert step <= limit <= step * (1 + 1e-6) * (1 + 1e-15)


def test_largest_takes_max_step_in_one_trial_where_it_is_acceptable() -> None:
    outcome, _, _ = search(LineSearch(largest=True, max_step=10.0), below(11.0))
    assert (float(outcome.step), int(outcome.trials)) == (10.0, 1)


def test_largest_begins_at_max_step_whatever_the_last_step_was() -> None:
    assert (
        search(LineSearch(Armijo(), Keep(), largest=True, max_step=10.0), below(1.0), last=0.5)[
            2
        ].etas[0]
        == 10.0
    )


def test_largest_that_runs_out_of_trials_takes_the_longest_step_accepted_so_far() -> None:
    # 8 bad, 4 good, 6 good, 7 bad: out of trials
    rule = LineSearch(largest=True, max_step=8.0, shrink=0.5, trials=4, tolerance=1e-9)
    outcome, _, line = search(rule, below(6.5))
    assert line.etas == [8.0, 4.0, 6.0, 7.0]
    assert (float(outcome.step), bool(outcome.failed)) == (6.0, False)


# From round to round


@dataclass
class Recorded(StepRule):
    """A line search that writes down the first trial and the accepted step of every search of a single client."""

    rule: LineSearch
    firsts: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    @property
    def carry(self) -> bool:
        return self.rule.carry

    def init(self, x: Tensor) -> dict[str, Tensor]:
        return self.rule.init(x)

    def search(
        self, phi: Phi, x: Tensor, f: Tensor, g: Tensor, d: Tensor, state: State
    ) -> tuple[Outcome, State]:
        ray = phi.along(x, d)
        line = Line(lambda eta, row: ray(eta, None), phi.share)
        outcome, after = self.rule.search(line, x, f, g, d, state)
        self.firsts.append(line.etas[0])
        self.steps.append(float(outcome.step))
        return outcome, after


def ill_conditioned() -> tuple[FunctionModel, Federation]:
    """Two clients, 1-D quadratics of curvatures 2 and 9, whose accepted steps differ."""
    one = torch.ones(4, 1, dtype=torch.float64)
    federation = Federation.of([(one, 2.0 * one[:, 0]), (one, 9.0 * one[:, 0])])
    start = torch.tensor([1.0], dtype=torch.float64)
    return FunctionModel(
        lambda x, batch: batch.targets * (batch.inputs @ x) ** 2 / 2, start
    ), federation


def rounds(
    rule: object, schedule: tuple[tuple[int, ...], ...], executor: Executor
) -> Iterator[list[Update]]:
    """The clients' updates of each round, with two local steps a round."""
    model, federation = ill_conditioned()
    task = Task(Algorithm(LocalSolver(rule)), model, federation, Plan(4, 2, order=InOrder()))  # type: ignore[arg-type]
    store, server = Store(), task.algorithm.init(model.init())
    for cohort in schedule:
        sent = Broadcast(server.x, server.shared, server.round)
        updates = list(executor(task, sent, cohort, store))
        for update in updates:
            server = task.algorithm.absorb(server, update.aggregate, len(federation))
        yield updates


def test_carry_begins_a_round_with_the_clients_own_last_step() -> None:
    # client 0 sits out round 2; in round 3 it goes on from its step of round 1, not from client 1's
    rule = Recorded(LineSearch(Armijo(0.4), Keep(), max_step=8.0, carry=True))
    list(rounds(rule, ((0,), (1,), (0,)), Sequential()))
    assert rule.firsts[0] == rule.firsts[2] == 8.0
    assert rule.steps[1] != rule.steps[3]
    assert rule.firsts[4] == rule.steps[1]


def test_carry_with_growth_goes_on_from_the_last_step_times_the_factor() -> None:
    rule = Recorded(LineSearch(Armijo(0.4), Grow(1.5), max_step=8.0, carry=True))
    list(rounds(rule, ((1,), (1,)), Sequential()))
    assert rule.firsts[2] == pytest.approx(1.5 * rule.steps[1], rel=1e-15)


def test_carry_is_the_same_in_a_block() -> None:
    rule = LineSearch(Armijo(0.4), Grow(1.3), max_step=8.0, carry=True)
    (first,), (second,) = rounds(rule, ((0, 1), (1, 0)), Cohort())
    for row, client in enumerate((1, 0)):
        begun = first.memory["step.step"][client] * 1.3
        accepted = second.trace.sizes[row, 0]
        shrinks = log(float(accepted / begun)) / log(0.9)
        assert shrinks == pytest.approx(int(second.trace.trials[row, 0]) - 1, abs=1e-9)


@RESETS
def test_without_carry_every_round_begins_at_max_step(reset: Reset) -> None:
    rule = Recorded(LineSearch(Armijo(0.4), reset, max_step=8.0))
    list(rounds(rule, ((0,), (0,), (0,)), Sequential()))
    assert [rule.firsts[i] for i in (0, 2, 4)] == [8.0] * 3
    assert all(step < 8.0 for step in rule.steps)


def test_a_schedule_decides_whose_memory_is_used() -> None:
    model, federation = ill_conditioned()
    algorithm = Algorithm(LocalSolver(LineSearch(Armijo(0.4), Keep(), max_step=8.0, carry=True)))
    task, store = Task(algorithm, model, federation, Plan(4, 2, order=InOrder())), Store()
    simulation = Simulation(task, 1, Given(((0,), (0,))))
    first, second = (report for _, report in simulation.run(simulation.begin(2), store, 2))
    assert sorted(store.memories) == [0]
    # 1-D of curvature 2 with c = 0.4: steps up to 2 (1 - c) / 2 = 0.6 are accepted, at every point; 8 * 0.9^25 = 0.574,
    # 8 * 0.9^24 = 0.638: 26 trials, then 1; kept, all of round 2 is accepted at once
    assert (first.trials, second.trials) == ((26 + 1) / 2, 1.0)


# Arguments


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: LineSearch(max_step=0.0), "max_step=0.0"),
        (lambda: LineSearch(max_step=-2.0), "max_step=-2.0"),
        (lambda: LineSearch(max_step=nan), "max_step=nan"),
        (lambda: LineSearch(max_step=inf), "max_step=inf"),
        (lambda: LineSearch(max_step=inf, start=1.0, largest=True), "max_step=inf"),
        (lambda: LineSearch(shrink=0.0), "shrink=0.0"),
        (lambda: LineSearch(shrink=1.0), "shrink=1.0"),
        (lambda: LineSearch(shrink=-0.5), "shrink=-0.5"),
        (lambda: LineSearch(shrink=nan), "shrink=nan"),
        (lambda: LineSearch(trials=0), "trials=0"),
        (lambda: LineSearch(trials=-3), "trials=-3"),
        (lambda: LineSearch(start=0.0), "start=0.0"),
        (lambda: LineSearch(start=-1.0), "start=-1.0"),
        (lambda: LineSearch(start=10.5), "start=10.5"),
        (lambda: LineSearch(start=nan), "start=nan"),
        (lambda: LineSearch(tolerance=0.0), "tolerance=0.0"),
        (lambda: LineSearch(tolerance=1.0), "tolerance=1.0"),
        (lambda: LineSearch(tolerance=nan), "tolerance=nan"),
        (lambda: Armijo(c=0.0), "c=0.0"),
        (lambda: Armijo(c=1.0), "c=1.0"),
        (lambda: Armijo(c=1.2), "c=1.2"),
        (lambda: Armijo(c=nan), "c=nan"),
        (lambda: Grow(factor=0.0), "factor=0.0"),
        (lambda: Grow(factor=-1.0), "factor=-1.0"),
        (lambda: Grow(factor=nan), "factor=nan"),
        (lambda: Grow(per=0), "per=0"),
        (lambda: Grow(per=-5), "per=-5"),
        (lambda: Grow(per=nan), "per=nan"),
    ],
)
def test_an_invalid_argument_is_refused_by_name_and_value(
    make: Callable[[], object], named: str
) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert named in str(caught.value)


def test_every_valid_extreme_is_taken() -> None:
    LineSearch(max_step=1e-9)
    LineSearch(max_step=inf, start=1.0)
    LineSearch(start=10.0, max_step=10.0)
    LineSearch(trials=1)


def test_a_trial_value_of_minus_infinity_is_rejected() -> None:
    rule = LineSearch(reset=Keep(), max_step=10.0, shrink=0.5)
    outcome, _, _ = search(
        rule, lambda eta, row: torch.where(eta > 1.0, -torch.inf, 1.0 - 0.5 * eta)
    )
    assert float(outcome.step) == 0.625
    assert int(outcome.trials) == 5  # 10, 5, 2.5 and 1.25 overflow


@pytest.mark.parametrize(
    "make", [lambda: LineSearch(slack=-1.0), lambda: LineSearch(slack=nan), lambda: Nudge(-1.0)]
)
def test_negative_slack_and_nudge_are_refused(make) -> None:
    with pytest.raises(InputError, match="0 or more"):
        make()
