"""The SLS optimiser that the clients of the programs search with."""

from __future__ import annotations

from math import inf

from fedstep.steps.conditions import Condition
from fedstep.steps.failures import Failure
from fedstep.steps.proposals import Proposal
from fedstep.steps.resets import Reset
from fedstep.steps.search import LineSearch


def program_search(
    condition: Condition,
    start: float,
    shrink: float,
    reset: Reset,
    trials: int,
    failure: Failure,
    proposal: Proposal | None = None,  # None: plain backtracking
) -> LineSearch:
    """The SLS optimiser: no largest step, no slack."""
    return LineSearch(
        condition,
        reset,
        max_step=inf,  # the optimiser knows no largest step
        shrink=shrink,
        trials=trials,
        start=start,
        failure=failure,
        slack=0.0,  # it compares losses as they are rounded
        proposal=proposal,
    )
