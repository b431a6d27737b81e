"""Clients that find their steps themselves: line searches, and the secant step of Delta-SGD."""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.authors.extrapolation import extrapolated
from fedstep.authors.optimiser import program_search
from fedstep.local.solver import LocalSolver
from fedstep.server.program_variants import ProgramAdam, ProgramAdamExtrapolate
from fedstep.server.readouts import LastTwo
from fedstep.server.rules import Step
from fedstep.server.weighting import BySamples
from fedstep.steps.conditions import Armijo, Goldstein
from fedstep.steps.failures import Failure, LastTrial, Nudge
from fedstep.steps.proposals import Factors
from fedstep.steps.resets import Grow, Keep, Reset
from fedstep.steps.search import FIRST_STEP
from fedstep.steps.secant import ProgramSecantStep


def fedsls(
    c: float = 0.1,
    start: float = FIRST_STEP,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0, per=500),  # by 2^(1/500) a step
    trials: int = 100,
    failure: Failure = Nudge(1e-6),  # moves all the same; zoo.fedsls takes no step
    server_step: float = 1.0,
) -> Algorithm:
    """FedSLS of the program: the SLS optimiser with its defaults, made anew every round."""
    search = program_search(Armijo(c), start, shrink, reset, trials, failure)
    return Algorithm(LocalSolver(search), Step(server_step), weighting=BySamples())


def fedexpsls(
    c: float = 0.1,
    start: float = FIRST_STEP,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0, per=500),
    trials: int = 100,
    failure: Failure = Nudge(1e-6),
    eps: float = 1e-3,
) -> Algorithm:
    """FedExpSLS of the program."""
    clients = fedsls(
        c=c,
        start=start,
        shrink=shrink,
        reset=reset,
        trials=trials,
        failure=failure,
    )
    return extrapolated(clients, eps)


def fedsls_goldstein(
    c: float = 0.1,
    start: float = FIRST_STEP,
    shrink: float = 0.9,
    grow: float = 2.0,
    max_step: float = 10.0,
    reset: Reset = Keep(),
    trials: int = 100,
    failure: Failure = LastTrial(),
    server_step: float = 1.0,
) -> Algorithm:
    """FedSLS of the program with the SLS optimiser's Goldstein conditions.

    Too short: times `grow`, up to max_step; too long: times `shrink`, down to 1e-8. When the trials
    are used up the last one is kept, good or not. The optimiser's own reset_option is 1, `Grow(2.0,
    per=500)`; its Goldstein preset has 0, `Keep()`.
    """
    factors = Factors(
        grow,
        cap=max_step,  # on growth only: the search itself has no largest step
        floor=1e-8,
    )
    search = program_search(Goldstein(c), start, shrink, reset, trials, failure, factors)
    return Algorithm(LocalSolver(search), Step(server_step), weighting=BySamples())


def fedexpsls_goldstein(
    c: float = 0.1,
    start: float = FIRST_STEP,
    shrink: float = 0.9,
    grow: float = 2.0,
    max_step: float = 10.0,
    reset: Reset = Keep(),
    trials: int = 100,
    failure: Failure = LastTrial(),
    eps: float = 1e-3,
) -> Algorithm:
    """FedExpSLS of the program with the SLS optimiser's Goldstein conditions."""
    clients = fedsls_goldstein(
        c=c,
        start=start,
        shrink=shrink,
        grow=grow,
        max_step=max_step,
        reset=reset,
        trials=trials,
        failure=failure,
    )
    return extrapolated(clients, eps)


def fedadamsls(
    c: float = 0.1,
    start: float = FIRST_STEP,
    server_step: float = 0.1,
    eps: float = 0.01,  # of Adam's root
) -> Algorithm:
    """Line-search clients under the Adam server of the program: its fedadamsls at c1cd56f."""
    clients = fedsls(c, start)
    server = ProgramAdam(server_step, eps)
    return replace(clients, server=server)


def fedadamexpsls(
    c: float = 0.1,
    start: float = FIRST_STEP,
    eps: float = 1e-3,  # of the extrapolation
    root_eps: float = 0.01,  # of Adam's root
) -> Algorithm:
    """The same with an extrapolated step along Adam's direction: its fedadamexpsls at c1cd56f."""
    clients = fedsls(c, start)
    server = ProgramAdamExtrapolate(eps, root_eps)
    return replace(
        clients,
        server=server,
        readout=LastTwo(),
    )


def delta_sgd(
    start: float = 0.2,
    amplifier: float = 0.02,  # in the place of the paper's delta, 0.1
    damping: float = 1.0,
    eps: float = 1e-8,
) -> Algorithm:
    """Delta-SGD of its authors' program: both gradients on one batch, made anew every round.

    Its server takes the plain mean of the clients' models, all counting the same.
    """
    step = ProgramSecantStep(
        start,
        amplifier,
        damping,
        eps,
    )
    client = LocalSolver(step)
    # without BySamples: this program is not built on FedExP's
    return Algorithm(client, Step(1.0))
