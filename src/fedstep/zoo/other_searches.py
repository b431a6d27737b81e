"""Line searches that are not Armijo's on the batch alone: relaxed, smoothed, estimated."""

from __future__ import annotations

from math import inf

from fedstep.algorithm import Algorithm
from fedstep.local.estimated import EstimatedValues
from fedstep.local.solver import LocalSolver
from fedstep.server.rules import Step
from fedstep.steps.cadence import Settled
from fedstep.steps.conditions import Armijo
from fedstep.steps.failures import Nudge
from fedstep.steps.probabilistic import ProbabilisticSearch
from fedstep.steps.references import Smoothed, ZhangHager
from fedstep.steps.resets import Grow, PolyakGuess
from fedstep.steps.search import FIRST_STEP, LineSearch


def fedponos(
    c: float = 0.5,
    c_polyak: float = 0.1,
    max_step: float = 10.0,  # of the PoNoS program
    shrink: float = 0.5,
    xi: float = 1.0,
    lower: float = 0.0,
    min_step: float = 1e-6,
    remember: bool = True,
    carry: bool = False,
    server_step: float = 1.0,
) -> Algorithm:
    """Clients search from a Polyak step on, and let the loss rise up to the mean so far.

        eta_0 = clip(shrink^l (f(x) - lower) / (c_polyak |g|^2 + 1e-8), min_step, max_step)
        l <- max(l + trials - 2, 0)
        eta = the first of eta_0, shrink eta_0, ... with f(x - eta g) <= max(C, f(x)) - c eta |g|^2
        x_{t+1} = x_t + server_step * D

    C is the mean of the batch losses of the round so far (over all rounds if carry) with weights
    xi^age, l counts past cuts.
    Paper: Galli, Rauhut and Schmidt, Don't be so Monotone: Relaxing Stochastic Line Search, NeurIPS
    2023.
    Special case: xi 0 and a constant first guess: FedSLS with this max_step.
    """
    # the guess shrinks with the cuts of the searches before it, which the reset remembers
    guess = PolyakGuess(c_polyak, lower, min_step, remember)
    search = LineSearch(
        Armijo(c), guess, ZhangHager(xi), max_step=max_step, shrink=shrink, carry=carry
    )
    return Algorithm(LocalSolver(search), Step(server_step))


def fedsalsa(
    c: float = 0.3,
    beta: float = 0.99,
    max_step: float = 10.0,  # a choice: the program knows no largest step
    shrink: float = 0.8,
    grow: float = 1.1,
    rarest: int = 10,
    carry: bool = True,
    server_step: float = 1.0,
) -> Algorithm:
    """Clients compare running means of gain and steepness, and search as often as steps change.

        eta = the first of eta_0, shrink eta_0, ... with h >= c eta s
        eta_0 = min(grow * last, max_step)
        h = beta h_old + (1 - beta) (f(x) - f(x - eta g));  s = beta s_old + (1 - beta) |g|^2
        x_{t+1} = x_t + server_step * D

    Between searches, at most `rarest` steps apart, eta_0 is taken untested. Steps and means outlive
    the round (carry).
    Paper: Kenneweg et al., No learning rates needed: Introducing SALSA - Stable Armijo Line Search
    Adaptation, IJCNN 2024.
    Special case: beta 0 and rarest 1: FedSLS with Grow(grow, per=1) and this max_step.
    """
    search = LineSearch(
        Armijo(c),
        Grow(grow, per=1),
        # both sides of the test are running means: one batch decides little
        Smoothed(beta),
        max_step=max_step,
        shrink=shrink,
        carry=carry,
        # a search costs trials; steps that settle need few
        cadence=Settled(rarest),
    )
    return Algorithm(LocalSolver(search), Step(server_step))


def fedprobls(
    c1: float = 0.05,
    c2: float = 0.5,
    threshold: float = 0.3,
    start: float = 0.1,
    trials: int = 7,
    max_step: float = inf,
    grow: float = 1.3,
    carry: bool = False,
    server_step: float = 1.0,
) -> Algorithm:
    """Clients take steps that probably satisfy the Wolfe conditions, given the batch's noise.

        P(f(x - eta g) <= f(x) - c1 eta |g|^2
            and  |<grad f(x - eta g), g>| <= c2 |g|^2) > threshold

    The probability is that of a Gaussian process through noisy values and slopes, whose variances
    are the batch's. A round begins at `start` (with `carry` where the client left off), a search at
    `grow` times the last step.
    Paper: Mahsereci and Hennig, Probabilistic Line Searches for Stochastic Optimization, NeurIPS
    2015.
    Special case: samples that agree: the steps satisfy the Wolfe conditions.
    """
    search = ProbabilisticSearch(
        c1, c2, threshold, start=start, trials=trials, max_step=max_step, grow=grow, carry=carry
    )
    return Algorithm(LocalSolver(search), Step(server_step))


def fedsls_estimated(
    c: float = 0.1,
    max_step: float = FIRST_STEP,
    grow: float = 2.0,
    carry: bool = True,
    server_step: float = 1.0,
) -> Algorithm:
    """Clients test one trial a batch, on estimates of their loss from more samples than the batch.

        f_s <= f_0 - c eta |g|^2:  x <- x - eta g, eta <- min(grow eta, max_step)
        otherwise:                 x stays,        eta <- eta / grow
        x_{t+1} = x_t + server_step * D

    g is of the batch at hand; f_0 and f_s, at x and x - eta g, are of all samples of the client's
    round. eta outlives the round (carry). A refused trial counts as a failed search.
    Paper: Paquette and Scheinberg, A Stochastic Line Search Method with Expected Complexity
    Analysis, SIAM Journal on Optimization 2020; its control of the sample sizes is left out.
    Special case: one batch a round, grow near 1: FedSLS with one trial a batch.
    """
    search = LineSearch(
        Armijo(c),
        Grow(grow, per=1),
        max_step=max_step,
        # the growth of the next batch is made up for: a refusal divides by grow, not by 1
        shrink=grow**-2,
        trials=1,
        failure=Nudge(0.0, remember_trial=True),
        carry=carry,
    )
    return Algorithm(EstimatedValues(search), Step(server_step))
