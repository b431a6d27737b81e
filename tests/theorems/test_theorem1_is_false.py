"""Theorem 1 of the federated paper (SGD with Armijo steps, convex, interpolation) cannot hold as printed.

    printed:   f(w-bar) - f* <= c / ((2c - 1) eta_max K) * |w_0 - w*|^2
    Vaswani:   f(w-bar) - f* <= c max(L / (2 (1 - c)), 1 / eta_max) / ((2c - 1) K) * |w_0 - w*|^2

with w-bar the mean of w_0 .. w_{K-1}. The printed right side vanishes as eta_max grows, but eta_max is only where the search
begins: the step it ends at does not know eta_max. (The proof replaces eta_k by eta_max in a product of unknown sign.)

The instance: f(w) = w^2 / 2 (L = 1, w* = 0, f* = 0), w_0 = 1, c = 0.6, eta_max = 1000, K = 1.
"""

from __future__ import annotations

import pytest
import torch

from fedstep.algorithm import Algorithm
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Sequential, Store, Task
from fedstep.local.solver import LocalSolver
from fedstep.models.function import FunctionModel
from fedstep.steps.conditions import Armijo
from fedstep.steps.resets import Restart
from fedstep.steps.search import LineSearch

C, SHRINK, L = 0.6, 0.9, 1.0


def iterates(
    max_step: float, steps: int, largest: bool = False
) -> tuple[list[float], list[float], list[int]]:
    """w_0 .. w_K with the steps and trials between them: K rounds of one local step of one client, all through the library."""
    search = LineSearch(
        Armijo(C), Restart(), max_step=max_step, shrink=SHRINK, largest=largest, tolerance=1e-9
    )
    model = FunctionModel(
        lambda x, batch: (batch.inputs @ x) ** 2 / 2, torch.ones(1, dtype=torch.float64)
    )
    one = torch.ones(1, 1, dtype=torch.float64)
    task = Task(
        Algorithm(LocalSolver(search)),
        model,
        Federation.of([(one, one[0])]),
        Plan(batch=1, steps=1),
    )
    server, points, sizes, trials = (
        task.algorithm.init(model.init()),
        [1.0],
        list[float](),
        list[int](),
    )
    for _ in range(steps):
        (update,) = Sequential()(task, task.algorithm.broadcast(server), [0], Store())
        server = task.algorithm.absorb(server, update.aggregate, 1)
        points.append(float(server.x))
        sizes += update.trace.sizes.tolist()
        trials += update.trace.trials.tolist()
    return points, sizes, trials


def f_of_mean(points: list[float]) -> float:
    """f at the mean of w_0 .. w_{K-1}."""
    return (sum(points[:-1]) / len(points[:-1])) ** 2 / 2


def printed(max_step: float, steps: int) -> float:
    return C / ((2 * C - 1) * max_step * steps)


def vaswani(max_step: float, steps: int, shrink: float = 1.0) -> float:
    """For grid backtracking the smallest step is shrink * 2 (1 - c) / L; a search for the largest step has no shrink."""
    return C * max(L / (2 * (1 - C) * shrink), 1 / max_step) / ((2 * C - 1) * steps)


def test_theorem_1_as_printed_is_false() -> None:
    # Armijo: (1 - eta)^2 / 2 <= 1/2 - 0.6 eta  iff  eta <= 2 (1 - c) / L = 0.8. The grid 1000 * 0.9^j first meets it at
    # j = ceil(ln(1250) / ln(1 / 0.9)) = ceil(67.68) = 68, trial 69: eta = 1000 * 0.9^68 = 0.7737, w_1 = 0.2263.
    points, sizes, trials = iterates(1000.0, 1)
    assert trials == [69]
    assert sizes == pytest.approx([1000 * 0.9**68], rel=1e-12)
    assert points == pytest.approx([1.0, 1 - 1000 * 0.9**68], rel=1e-12)
    # w-bar = w_0 = 1, f = 0.5; the bound is 0.6 / (0.2 * 1000 * 1) = 0.003
    assert f_of_mean(points) == 0.5
    assert printed(1000.0, 1) == pytest.approx(0.003)
    assert f_of_mean(points) > printed(1000.0, 1)


def test_theorem_1_is_false_also_for_the_mean_of_w_1_to_w_K() -> None:
    value = iterates(1000.0, 1)[0][1] ** 2 / 2
    assert value == pytest.approx((1 - 1000 * 0.9**68) ** 2 / 2, rel=1e-11)  # 0.0256
    assert value > printed(1000.0, 1)


def test_theorem_1_is_false_also_for_the_largest_acceptable_step() -> None:
    # the step is 0.8, w_1 = 0.2: not an artefact of the grid
    points, sizes, _ = iterates(1000.0, 1, largest=True)
    assert sizes == pytest.approx([0.8], rel=1e-8)
    assert f_of_mean(points) > printed(1000.0, 1)


@pytest.mark.parametrize("steps", [1, 3, 10, 30])
def test_theorem_1_is_false_also_for_more_steps(steps: int) -> None:
    # every search ends at the same step: w_k = q^k, w-bar = (1 - q^K) / (K (1 - q)) >= 1 / K, so f >= 1 / (2 K^2), against
    # 0.003 / K: false for every K < 166. (A gradient below 1e-8 counts as zero, hence the tolerance)
    q, value = 1 - 1000 * 0.9**68, f_of_mean(iterates(1000.0, steps)[0])
    assert value == pytest.approx(((1 - q**steps) / (steps * (1 - q))) ** 2 / 2, rel=1e-6)
    assert value > printed(1000.0, steps)


@pytest.mark.parametrize("steps", [1, 3, 10, 30])
@pytest.mark.parametrize("max_step", [0.1, 1.0, 1000.0])
@pytest.mark.parametrize("largest", [False, True])
def test_vaswanis_form_holds_on_the_same_instance(
    steps: int, max_step: float, largest: bool
) -> None:
    # K = 1, eta_max = 1000: 0.6 * 1.25 / 0.2 = 3.75, and 4.17 with shrink
    points, _, _ = iterates(max_step, steps, largest)
    assert f_of_mean(points) <= vaswani(max_step, steps, 1.0 if largest else SHRINK)


def test_the_printed_form_is_true_where_max_step_itself_is_accepted() -> None:
    # eta_max = 0.1 <= 0.8: the replacement of eta_k by eta_max is then no replacement
    points, sizes, _ = iterates(0.1, 10)
    assert sizes == [0.1] * 10
    assert f_of_mean(points) <= printed(0.1, 10)
