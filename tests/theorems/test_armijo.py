"""What an accepted Armijo step satisfies: on random smooth convex functions, in single searches and in whole rounds.

f(x - eta g) <= f(x) - eta (1 - L eta / 2) |g|^2 for an L-smooth f, so every eta <= 2 (1 - c) / L is acceptable; floor and trial
bound below follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import ceil, log

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from torch import Tensor

from fedstep import zoo
from fedstep.algorithm import Update
from fedstep.core.types import Batch, Context
from fedstep.core.vec import State, dot, norm_sq
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Executor, Sequential, Store, Task
from fedstep.local.objective import Objective
from fedstep.local.oracles import Autograd
from fedstep.local.solver import LocalSolver
from fedstep.models.function import FunctionModel
from fedstep.steps.conditions import Armijo
from fedstep.steps.resets import Grow, Keep, Reset, Restart
from fedstep.steps.rule import ObjectiveAlongLine, Outcome, Phi, StepRule
from fedstep.steps.search import LineSearch

EPS = float(np.finfo(np.float64).eps)


def squares(x: Tensor, batch: Batch) -> Tensor:
    return (batch.inputs @ x - batch.targets) ** 2 / 2


def logistic(x: Tensor, batch: Batch) -> Tensor:
    return torch.nn.functional.softplus(-batch.targets * (batch.inputs @ x))


LOSSES: dict[str, tuple[Callable[[Tensor, Batch], Tensor], float]] = {
    "squares": (squares, 1.0),
    "logistic": (logistic, 0.25),
}


def smoothness(kind: str, inputs: Tensor) -> float:
    """L of the mean loss: sup of the loss's second derivative (1, or 1/4) times the top eigenvalue of A'A / n."""
    return LOSSES[kind][1] * float(torch.linalg.eigvalsh(inputs.T @ inputs / len(inputs))[-1])


@dataclass(frozen=True)
class Point:
    """A batch, a point, and what the search is told there."""

    kind: str
    phi: Objective
    x: Tensor
    f: Tensor
    g: Tensor

    @property
    def curvature(self) -> float:
        return smoothness(self.kind, self.phi.batch.inputs)

    def at(self, eta: float) -> float:
        return float(self.phi(self.x - eta * self.g))

    def search(self, rule: LineSearch) -> Outcome:
        return rule.search(self.phi, self.x, self.f, self.g, -self.g, rule.init(self.x))[0]

    def least_decrease(self, eta: float, c: float) -> float:
        return float(self.f) - c * eta * float(norm_sq(self.g))


def point(kind: str, seed: int, scale: float = 1.0) -> Point:
    rng = np.random.default_rng(seed)
    n, dim = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    inputs = torch.tensor(scale * rng.standard_normal((n, dim)))
    targets = torch.tensor(
        np.sign(rng.standard_normal(n)) if kind == "logistic" else rng.standard_normal(n)
    )
    x = torch.tensor(rng.standard_normal(dim))
    model = FunctionModel(LOSSES[kind][0], x)
    phi = Objective(Context(x, model), Batch((inputs, targets), torch.tensor(1.0), torch.tensor(0)))
    f, g = Autograd()(phi, x)
    return Point(kind, phi, x, f, g)


def well_scaled(p: Point) -> bool:
    """Elsewhere the decrease drowns in rounding."""
    return bool(norm_sq(p.g) > 1e-4 * p.f)


def on(kind: str) -> st.SearchStrategy[Point]:
    return st.builds(
        point, st.just(kind), st.integers(0, 2**31), st.sampled_from([0.1, 1.0, 10.0])
    ).filter(well_scaled)


points = st.sampled_from(sorted(LOSSES)).flatmap(on)
cs = st.floats(0.01, 0.95)
shrinks = st.floats(0.3, 0.95)
starts = st.floats(-3.0, 3.0).map(lambda e: 10.0**e)
many = settings(max_examples=50)


def rule(c: float, shrink: float, start: float, **more: object) -> LineSearch:
    return LineSearch(Armijo(c), max_step=start, shrink=shrink, trials=2000, **more)  # type: ignore[arg-type]


# Single searches


@many
@given(points, cs, shrinks, starts)
def test_an_accepted_step_satisfies_the_armijo_inequality(
    p: Point, c: float, shrink: float, start: float
) -> None:
    outcome = p.search(rule(c, shrink, start))
    assert not outcome.failed
    assert p.at(float(outcome.step)) <= p.least_decrease(float(outcome.step), c) + 8 * EPS * float(
        p.f
    )


@many
@given(points, cs, shrinks, starts)
def test_an_accepted_step_is_positive_and_at_most_max_step(
    p: Point, c: float, shrink: float, start: float
) -> None:
    assert 0 < float(p.search(rule(c, shrink, start)).step) <= start


@many
@given(points, cs, shrinks, starts)
def test_an_accepted_step_is_at_least_the_floor(
    p: Point, c: float, shrink: float, start: float
) -> None:
    floor = min(start, shrink * 2 * (1 - c) / p.curvature)
    assert float(p.search(rule(c, shrink, start)).step) >= floor * (1 - 1e-9)


@many
@given(points, cs, shrinks, starts)
def test_the_number_of_trials_is_bounded(p: Point, c: float, shrink: float, start: float) -> None:
    # start * shrink^j <= 2 (1 - c) / L is accepted, at the latest in trial j + 1
    bound = 1 + max(0, ceil(log(start * p.curvature / (2 * (1 - c))) / log(1 / shrink) + 1e-9))
    assert 1 <= int(p.search(rule(c, shrink, start)).trials) <= bound


@many
@given(points, cs, shrinks, starts)
def test_the_step_is_start_times_shrink_for_every_trial_but_the_first(
    p: Point, c: float, shrink: float, start: float
) -> None:
    outcome = p.search(rule(c, shrink, start))
    assert float(outcome.step) == pytest.approx(
        start * shrink ** (int(outcome.trials) - 1), rel=1e-11
    )


@many
@given(points, st.tuples(cs, cs).map(sorted), shrinks, starts)
def test_a_larger_c_never_takes_a_longer_step_nor_fewer_trials(
    p: Point, two: list[float], shrink: float, start: float
) -> None:
    loose, strict = (p.search(rule(c, shrink, start)) for c in two)
    assert float(strict.step) <= float(loose.step)
    assert int(strict.trials) >= int(loose.trials)


def test_a_much_larger_c_takes_a_shorter_step() -> None:
    p = point("squares", 3)
    assert float(p.search(rule(0.9, 0.9, 100.0)).step) < float(p.search(rule(0.1, 0.9, 100.0)).step)


@many
@given(points, cs, shrinks, starts)
def test_the_grid_step_lies_within_one_shrink_of_the_largest_acceptable_step(
    p: Point, c: float, shrink: float, start: float
) -> None:
    # a convex slice has an interval of acceptable steps (0, top]; the trial before the accepted one lay above top
    tolerance = 1e-6
    grid = float(p.search(rule(c, shrink, start)).step)
    largest = float(p.search(rule(c, shrink, start, largest=True, tolerance=tolerance)).step)
    assert shrink * largest < grid * (1 + 1e-12)
    assert grid <= largest * (1 + tolerance) * (1 + 1e-12)


@many
@given(on("squares"), cs)
def test_the_largest_step_on_a_quadratic_is_the_closed_form(p: Point, c: float) -> None:
    # f(x - eta g) = f - eta |g|^2 + eta^2 g'Hg / 2 <= f - c eta |g|^2  iff  eta <= 2 (1 - c) |g|^2 / g'Hg
    a = p.phi.batch.inputs
    top = float(2 * (1 - c) * norm_sq(p.g) / norm_sq(a @ p.g) * len(a))
    assume(top < 900)
    found = float(p.search(rule(c, 0.9, 1000.0, largest=True, tolerance=1e-6)).step)
    assert found <= top * (1 + 1e-9)
    assert top <= found * (1 + 1e-6) * (1 + 1e-9)


@many
@given(on("logistic"), cs)
def test_the_largest_step_on_a_logistic_loss_is_the_root_of_the_armijo_gap(
    p: Point, c: float
) -> None:
    def gap(eta: float) -> float:
        return p.at(eta) - p.least_decrease(eta, c)

    assume(gap(1000.0) > 0)
    top = brentq(gap, 2 * (1 - c) / p.curvature * 0.99, 1000.0, xtol=1e-14, rtol=1e-12)
    found = float(p.search(rule(c, 0.9, 1000.0, largest=True, tolerance=1e-6)).step)
    assert top * (1 - 1e-6) * (1 - 1e-8) <= found <= top * (1 + 1e-8)


@pytest.mark.parametrize("c", [0.1, 0.5, 0.8])
def test_the_floor_is_sharp_on_the_steepest_parabola(c: float) -> None:
    # 1-D, f = L x^2 / 2: exactly the steps up to 2 (1 - c) / L are acceptable
    one = torch.tensor([2.0], dtype=torch.float64)
    batch = Batch(
        (torch.tensor([[3.0]], dtype=torch.float64), one * 0), torch.tensor(1.0), torch.tensor(0)
    )
    phi = Objective(Context(one, FunctionModel(squares, one)), batch)
    p = Point("squares", phi, one, *Autograd()(phi, one))
    assert p.curvature == pytest.approx(9.0)
    found = float(p.search(rule(c, 0.9, 10.0, largest=True, tolerance=1e-9)).step)
    assert found == pytest.approx(2 * (1 - c) / 9, rel=2e-9)


def test_the_floor_does_not_hold_for_a_smoothness_constant_that_is_too_small() -> None:
    c, shrink = 0.1, 0.9
    below = []
    for seed in range(20):
        p = point("squares", seed)
        below.append(
            float(p.search(rule(c, shrink, 100.0)).step) < shrink * 2 * (1 - c) / (p.curvature / 4)
        )
    assert any(below)


# Whole rounds


@dataclass(frozen=True)
class Seen:
    """One search of one client in a round."""

    f: float
    value: float  # at the accepted step, on the same batch
    step: float
    first: float
    norm_sq: float
    L: float
    trials: int


@dataclass
class Spy:
    """phi that remembers the first trial of every row of the block."""

    phi: Phi
    first: dict[int, float] = field(default_factory=dict)

    @property
    def round(self) -> int:
        return self.phi.round

    @property
    def share(self) -> Tensor:
        return self.phi.share

    def __call__(self, x: Tensor) -> Tensor:
        return self.phi(x)

    def slope(self, g: Tensor, d: Tensor) -> Tensor:
        return dot(g, d)

    def norm_sq(self, g: Tensor) -> Tensor:
        return norm_sq(g)

    def along(self, x: Tensor, d: Tensor) -> ObjectiveAlongLine:
        ray = self.phi.along(x, d)

        def spied(eta: Tensor, rows: Tensor | None) -> Tensor:
            each = eta.reshape(-1).tolist()
            for row, value in zip(
                range(len(each)) if rows is None else rows.tolist(), each, strict=True
            ):
                self.first.setdefault(row, value)
            return ray(eta, rows)

        return spied


@dataclass
class Witness(StepRule):
    """A line search that writes down what it saw; on clients one by one and on blocks."""

    rule: LineSearch
    kind: str
    seen: list[Seen] = field(default_factory=list)

    @property
    def carry(self) -> bool:
        return self.rule.carry

    def init(self, x: Tensor) -> dict[str, Tensor]:
        return self.rule.init(x)

    def search(
        self, phi: Objective, x: Tensor, f: Tensor, g: Tensor, d: Tensor, state: State
    ) -> tuple[Outcome, dict[str, Tensor]]:
        spy = Spy(phi)
        outcome, after = self.rule.search(spy, x, f, g, d, state)
        value = phi(x + outcome.step.unsqueeze(-1) * d)
        columns = [
            t.reshape(-1).tolist() for t in (f, value, outcome.step, norm_sq(g), outcome.trials)
        ]
        batches = [phi.batch.row(i) for i in range(len(x))] if x.dim() == 2 else [phi.batch]
        for row, (batch, (loss, after_loss, step, square, trials)) in enumerate(
            zip(batches, zip(*columns, strict=True), strict=True)
        ):
            L = smoothness(self.kind, batch.inputs)
            self.seen.append(Seen(loss, after_loss, step, spy.first[row], square, L, trials))
        return outcome, after


SIZES, STEPS, ROUNDS = (11, 4, 3, 18, 7), 6, 4
BOTH = pytest.mark.parametrize("executor", [Sequential(), Cohort(3)], ids=["sequential", "cohort"])
KINDS = pytest.mark.parametrize("kind", sorted(LOSSES))
RESETS = pytest.mark.parametrize(
    "reset", [Keep(), Restart(), Grow(2.0)], ids=lambda r: type(r).__name__
)


def federation(kind: str, seed: int = 5) -> Federation:
    """Clients of unequal size, scale and optimum."""
    rng = np.random.default_rng(seed)
    clients = []
    for i, n in enumerate(SIZES):
        inputs = (1 + i) * rng.standard_normal((n, 4))
        scores = inputs @ rng.standard_normal(4) + rng.standard_normal(n)
        clients.append(
            (torch.tensor(inputs), torch.tensor(np.sign(scores) if kind == "logistic" else scores))
        )
    return Federation.of(clients)


def run(
    kind: str, search: LineSearch, executor: Executor, steps: int = STEPS
) -> tuple[Witness, Iterator[list[Update]]]:
    """A witness and the rounds it is going to see: all clients, FedSLS's server."""
    witness = Witness(search, kind)
    algorithm = replace(zoo.fedsls(), local=LocalSolver(witness))  # type: ignore[arg-type]
    data = federation(kind)
    model = FunctionModel(LOSSES[kind][0], torch.zeros(4, dtype=torch.float64))
    task, store = Task(algorithm, model, data, Plan(4, steps)), Store()

    def rounds() -> Iterator[list[Update]]:
        server = algorithm.init(model.init(), ROUNDS)
        for _ in range(ROUNDS):
            updates = list(executor(task, algorithm.broadcast(server), range(len(data)), store))
            yield updates
            total = updates[0].aggregate
            for update in updates[1:]:
                total = total + update.aggregate
            server = algorithm.absorb(server, total, len(data))

    return witness, rounds()


@BOTH
@KINDS
@RESETS
def test_every_step_of_a_run_satisfies_condition_floor_and_trial_bound(
    reset: Reset, kind: str, executor: Executor
) -> None:
    c, shrink = 0.3, 0.8
    witness, rounds = run(kind, LineSearch(Armijo(c), reset, max_step=5.0, shrink=shrink), executor)
    list(rounds)
    assert len(witness.seen) == len(SIZES) * STEPS * ROUNDS
    assert sum(s.trials > 1 for s in witness.seen) > len(SIZES) * ROUNDS / 2, (
        "the search had nothing to do"
    )
    for s in witness.seen:
        top = 2 * (1 - c) / s.L
        assert s.value <= s.f - c * s.step * s.norm_sq + 8 * EPS * s.f
        assert min(s.first, shrink * top) * (1 - 1e-9) <= s.step <= s.first <= 5.0
        assert s.trials <= 1 + max(0, ceil(log(s.first / top) / log(1 / shrink) + 1e-9))


@BOTH
@KINDS
def test_keep_never_lengthens_a_step_within_a_round(kind: str, executor: Executor) -> None:
    _, rounds = run(kind, LineSearch(Armijo(0.3), Keep(), max_step=5.0), executor)
    shortened = False
    for updates in rounds:
        for sizes in (u.trace.sizes.reshape(-1, STEPS) for u in updates):
            assert bool((sizes[:, 1:] <= sizes[:, :-1]).all())
            shortened |= bool((sizes[:, 1:] < sizes[:, :-1]).any())
    assert shortened


@KINDS
@pytest.mark.parametrize("reset", [Restart(), Grow(2.0)], ids=["restart", "grow"])
def test_the_other_resets_do_lengthen_steps_within_a_round(kind: str, reset: Reset) -> None:
    _, rounds = run(kind, LineSearch(Armijo(0.3), reset, max_step=5.0), Sequential())
    assert any(
        bool((u.trace.sizes[1:] > u.trace.sizes[:-1]).any()) for updates in rounds for u in updates
    )


@KINDS
@RESETS
@pytest.mark.parametrize("steps", [1, 2, 6])
def test_a_delta_is_no_longer_than_its_steps_allow(steps: int, reset: Reset, kind: str) -> None:
    # D = -sum_k eta_k g_k, so |D|^2 <= K sum_k eta_k^2 |g_k|^2 (Cauchy-Schwarz), with equality for K = 1
    witness, rounds = run(kind, LineSearch(Armijo(0.3), reset, max_step=5.0), Sequential(), steps)
    for updates in rounds:
        for i, update in enumerate(updates):
            own = witness.seen[-len(SIZES) * steps :][i * steps : (i + 1) * steps]
            length = float(norm_sq(update.aggregate.delta))
            allowed = steps * sum(s.step**2 * s.norm_sq for s in own)
            assert length <= allowed * (1 + 1e-12)
            if steps == 1:
                assert length == pytest.approx(allowed, rel=1e-12)
