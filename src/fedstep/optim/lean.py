"""The line search with the fewest trials."""

from __future__ import annotations

from fedstep.steps.conditions import Armijo
from fedstep.steps.proposals import Parabola
from fedstep.steps.resets import Fitted
from fedstep.steps.search import LineSearch


def lean_search(
    aim: float = 0.3,
    c: float = 1e-4,
    max_step: float = LineSearch.max_step,
) -> LineSearch:
    """About one trial a step: the next step is read off the parabola through the last trial.

    aim 0.3 is 1.4 / curvature, well beyond the minimum along the line: steps that stay inside it
    lead deep networks into sharper and sharper places. A long first step is cut by the parabola,
    not by a grid.
    """
    return LineSearch(
        Armijo(c),
        reset=Fitted(aim),
        max_step=max_step,
        proposal=Parabola(),
    )
