"""A cadence that tests a step where the loss is steeper than what has been tested."""

from __future__ import annotations

import pytest
import torch

from fedstep.core.errors import InputError
from fedstep.steps.cadence import Steeper
from fedstep.steps.common import CommonStep


def due_at(cadence: Steeper, slopes: list[float], found: list[float]) -> list[bool]:
    """In which steps there is a search, for slopes along the way and the steps that are found."""
    state = cadence.init(torch.zeros(3))
    answers = []
    for slope, step in zip(slopes, found, strict=True):
        due, state = cadence(torch.tensor(slope), state)
        if bool(due):
            state = cadence.after(torch.tensor(step), state)
        answers.append(bool(due))
    return answers


def test_steps_of_like_slopes_are_searched_for_once_in_a_while():
    answers = due_at(Steeper(rarest=4), [-1.0] * 10, [1.0] * 10)
    assert answers == [True, False, False, False] * 2 + [True, False]


def test_a_steeper_loss_is_searched_at_once_and_becomes_the_measure():
    slopes = [-1.0, -2.0, -2.1, -4.2, -4.3]
    answers = due_at(Steeper(rarest=100, factor=2.0), slopes, [1.0] * 5)
    assert answers == [True, False, True, False, True]


def test_after_a_search_that_found_nothing_the_next_step_is_searched_for():
    answers = due_at(Steeper(rarest=100), [-1.0] * 4, [0.0, 0.0, 1.0, 1.0])
    assert answers == [True, True, True, False]


def test_every_step_is_searched_for_where_asked():
    assert all(due_at(Steeper(rarest=1), [-1.0] * 5, [1.0] * 5))


@pytest.mark.parametrize("bad", [{"rarest": 0}, {"factor": 0.0}])
def test_settings_that_mean_nothing_are_refused(bad):
    with pytest.raises(InputError, match="Steeper"):
        Steeper(**bad)


class Parabola:
    """f(x) = 0.5 a x^2 in one dimension, and how often it was evaluated."""

    share = 1.0

    def __init__(self, a: float) -> None:
        self.a = a
        self.evaluated = 0

    def slope(self, g, d):
        return (g * d).sum(-1)

    def norm_sq(self, v):
        return (v * v).sum(-1)

    def along(self, x, d):
        def ray(eta, rows):
            self.evaluated += 1
            point = x + eta.unsqueeze(-1) * d
            return 0.5 * self.a * self.norm_sq(point)

        return ray


def test_a_common_step_is_taken_untested_between_searches_and_the_first_round_is_all_searches():
    rule = CommonStep(cadence=Steeper(rarest=4))
    for common, searches in ((0.5, 2), (0.0, 8)):
        phi = Parabola(1.0)
        x = torch.tensor([4.0], dtype=torch.float64)
        state = rule.init(x)
        state["common"] = torch.tensor(common, dtype=torch.float64)
        taken = []
        for _ in range(8):
            g = x * phi.a
            outcome, state = rule.search(phi, x, 0.5 * phi.a * phi.norm_sq(x), g, -g, state)
            assert not bool(outcome.failed)
            taken.append(float(outcome.step))
            x = x - outcome.step * g
        assert phi.evaluated == searches
        # never beyond the common step, and a step each time
        assert all(step > 0 for step in taken)
        if common:
            assert max(taken) <= common
