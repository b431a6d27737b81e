"""The numbers of a method that the theorems are about."""

from __future__ import annotations

from dataclasses import dataclass

from fedstep.algorithm import Algorithm
from fedstep.local.terms import L2
from fedstep.server.rules import Extrapolate, Step
from fedstep.steps.conditions import Armijo
from fedstep.steps.search import LineSearch


@dataclass(frozen=True)
class Setup:
    """The numbers of a method that the theorems are about."""

    c: float  # Armijo's constant
    max_step: float
    start: float  # where the first search of a round begins
    shrink: float  # accepted over refused step, at least
    eta_g: float  # 1 for an extrapolated server
    extrapolates: bool
    l2: float  # weight of all L2 terms

    @staticmethod
    def of(algorithm: Algorithm) -> Setup | None:
        """None where the clients do not search with Armijo's condition, or the server's step is
        not one number.
        """
        step = algorithm.local.step
        server = algorithm.server
        if not isinstance(step, LineSearch) or not isinstance(step.condition, Armijo):
            return None
        if not isinstance(server, Step | Extrapolate):
            return None
        # the bounds of FedExpSLS are those of FedSLS with a server step of 1
        eta_g = 1.0
        if isinstance(server, Step):
            eta_g = server.step
        l2 = sum(term.weight for term in algorithm.local.terms if isinstance(term, L2))
        return Setup(
            c=step.condition.c,
            max_step=step.max_step,
            start=_first_trial(step),
            shrink=_shrink(step),
            eta_g=eta_g,
            extrapolates=isinstance(server, Extrapolate),
            l2=l2,
        )


def _first_trial(step: LineSearch) -> float:
    if step.start is None:
        return step.max_step
    return step.start


def _shrink(step: LineSearch) -> float:
    # the largest acceptable step is bracketed up to a tolerance, however coarse the trials are
    if step.largest:
        return 1 / (1 + step.tolerance)
    return step.shrink
