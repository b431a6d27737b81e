"""Line-search methods that the paper's program gained later, and searches that it never calls."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from fedstep.algorithm import Algorithm
from fedstep.authors.extrapolation import EPS_DECAY, extrapolated
from fedstep.authors.optimiser import program_search
from fedstep.core.errors import InputError
from fedstep.corrections.control_variates import MeanControl
from fedstep.local.directions import Chain, Clip, Decay
from fedstep.local.moves import Extragradient, Inertia, Move
from fedstep.local.solver import LocalSolver
from fedstep.server.moments import Adaptive, Average
from fedstep.server.program_variants import ExtrapolateAlong
from fedstep.server.readouts import LastTwo
from fedstep.server.rules import Extrapolate, Step
from fedstep.server.weighting import BySamples
from fedstep.steps.conditions import Armijo
from fedstep.steps.failures import Failure, Nudge
from fedstep.steps.lipschitz import LipschitzSearch
from fedstep.steps.program_searches import DirectionAsGradient, DriftSearch
from fedstep.steps.resets import Grow, Keep, Reset
from fedstep.steps.rule import StepRule
from fedstep.steps.search import FIRST_STEP, LineSearch


def fedsls_regularized(
    c: float = 0.1,
    start: float = FIRST_STEP,
    clip: float = 10.0,  # largest norm of the gradient
    weight_decay: float = 1e-4,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0, per=500),
    trials: int = 100,
    failure: Failure = Nudge(1e-6),
    server_step: float = 1.0,
) -> Algorithm:
    """FedSLS with the clipping and the weight decay that the program's SGD clients always had.

        d = -(clip(g) + weight_decay x);  f(x + eta d) <= f(x) - c eta |d|^2

    The gradient is clipped before the decay is added, and f is without the L2 term.
    """
    search = program_search(Armijo(c), start, shrink, reset, trials, failure)
    direction = Chain((Clip(clip), Decay(weight_decay)))
    return _averaged(LocalSolver(DirectionAsGradient(search), direction), server_step)


def fedexpsls_regularized(
    c: float = 0.1,
    start: float = FIRST_STEP,
    clip: float = 10.0,
    weight_decay: float = 1e-4,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0, per=500),
    trials: int = 100,
    failure: Failure = Nudge(1e-6),
    eps: float = 1e-3,
) -> Algorithm:
    """The clients of fedsls_regularized under the program's extrapolating server."""
    clients = fedsls_regularized(c, start, clip, weight_decay, shrink, reset, trials, failure)
    return extrapolated(clients, eps)


def fedadamsls_regularized(
    c: float = 0.1,
    start: float = FIRST_STEP,
    clip: float = 10.0,
    weight_decay: float = 1e-4,
    server_step: float = 0.1,
    tau: float = 0.01,
) -> Algorithm:
    """The clients of fedsls_regularized under Reddi's FedAdam.

    The program now calls this fedadamsls. v begins at 0, where the paper of FedAdam has tau^2.
    """
    clients = fedsls_regularized(c, start, clip, weight_decay)
    return replace(clients, server=_adam(server_step, tau))


def fedadamexpsls_regularized(
    c: float = 0.1,
    start: float = FIRST_STEP,
    clip: float = 10.0,
    weight_decay: float = 1e-4,
    server_step: float = 1.0,
    cap: float = inf,
    eps: float = 1e-3,
    tau: float = 0.01,
) -> Algorithm:
    """Adam's step times the extrapolation of the raw mean delta.

        eta_g = server_step * clip(mean |D_i|^2 / (2 (|D|^2 + |S| eps)), 1, cap)
        x_{t+1} = x_t + eta_g m / (sqrt(v) + tau)

    The program's `-regularized` has server_step 1, `-scaled-regularized` 0.1, and
    `-capped15-regularized` cap 1.5. Its `fedadamexpsls` has clip inf and weight_decay 0. The ratio
    of `authors.fedadamexpsls`, an earlier version, compares |D_i| with the length of Adam's step.
    """
    clients = fedsls_regularized(c, start, clip, weight_decay)
    ratio = Extrapolate(eps, cap, decay=EPS_DECAY, eps_per_client=True)
    server = ExtrapolateAlong(_adam(server_step, tau), ratio)
    return replace(clients, server=server, readout=LastTwo())


def scaffold_sls(
    rule: str = "original",
    sigma: float = 0.1,
    alpha: float = 0.1,  # of the drift_slack rules
    slack: float | None = None,  # of the drift_slack rules, which have no default for it
    cap: float = inf,  # of the first trial
    start: float = FIRST_STEP,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0, per=500),
    trials: int = 100,
    failure: Failure = Nudge(1e-6),
) -> Algorithm:
    """SCAFFOLD whose clients search along d = -(g + h), h = c - c_i, under one of six rules.

        surrogate_armijo       f(x + eta d) + eta <h, d> <= f(x) - sigma eta |d|^2
        original               f(x + eta d) <= f(x) - eta (|g|^2 - |h|^2 + sigma |d|^2) / 2
        no_control_reward      f(x + eta d) <= f(x) - eta (|g|^2 + sigma |d|^2) / 2
        grad_control           f(x + eta d) <= f(x) - eta (1 - sigma)/2 |g|^2
                                                    + eta (2 + sigma)/4 |h|^2
        drift_slack            f(x + eta d) <= f(x) - eta (alpha |g|^2 - slack |h|^2)
        quadratic_drift_slack  f(x + eta d) <= f(x) - alpha eta |g|^2 + slack/2 eta^2 |h|^2

    f and g are of the batch without the tilt; only the first rule tests the function that d
    descends. c_i takes the sum of the steps in the place of K eta. The gradient is not clipped.
    """
    if not 0 < sigma < 0.5:
        raise InputError(f"scaffold_sls(sigma={sigma}): sigma must lie in (0, 1/2); try 0.1")
    grid = program_search(Armijo(sigma), min(start, cap), shrink, reset, trials, failure)
    step = _acceptance(rule, sigma, alpha, slack, replace(grid, max_step=cap))
    return replace(_averaged(LocalSolver(step)), correction=MeanControl())


def sls_eg(
    c: float = 0.9,
    start: float = FIRST_STEP,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0, per=500),
    trials: int = 100,
    failure: Failure = Nudge(1e-6),
    server_step: float = 1.0,
) -> Algorithm:
    """Clients with the extragradient optimiser that lies in the program.

    No method of the program calls it. It stops with an error where a batch's gradient is 0; here
    the client stays.
    """
    grid = program_search(Armijo(), start, shrink, reset, trials, failure)
    client = LocalSolver(LipschitzSearch(c, grid), move=Extragradient())
    return _averaged(client, server_step)


def sls_acc(
    c: float = 0.1,
    start: float = FIRST_STEP,
    shrink: float = 0.9,
    move: Move = Inertia(0.6),  # Polyak's; `Nesterov()` is its other acceleration
    reset: Reset = Keep(),
    trials: int = 100,
    failure: Failure = Nudge(1e-6, remember_trial=True),
    server_step: float = 1.0,
) -> Algorithm:
    """Clients with the accelerated Armijo optimiser that lies in the program.

    No method of the program calls it. Of its resets only `Keep()` and `Restart()` run: the growing
    one stops with an error.
    """
    search = program_search(Armijo(c), start, shrink, reset, trials, failure)
    return _averaged(LocalSolver(search, move=move), server_step)


def _averaged(client: LocalSolver, server_step: float = 1.0) -> Algorithm:
    return Algorithm(client, Step(server_step), weighting=BySamples())


def _adam(step: float, tau: float) -> Adaptive:
    return Adaptive(Average(0.99), step, 0.9, tau, start=0.0)


def _acceptance(
    rule: str, sigma: float, alpha: float, slack: float | None, grid: LineSearch
) -> StepRule:
    """The search under one of the program's acceptance rules, by the program's name."""
    if rule == "surrogate_armijo":
        return grid  # SCAFFOLD's tilt is a term of the function, which the search tests as it is
    if rule == "original":
        return DriftSearch(0.5, sigma / 2, 0.5, grid=grid)
    if rule == "no_control_reward":
        return DriftSearch(0.5, sigma / 2, 0.0, grid=grid)
    if rule == "grad_control":
        return DriftSearch((1 - sigma) / 2, 0.0, (2 + sigma) / 4, grid=grid)
    if rule not in ("drift_slack", "quadratic_drift_slack"):
        raise InputError(
            f"scaffold_sls(rule={rule!r}): take original, grad_control, no_control_reward, "
            "drift_slack, quadratic_drift_slack or surrogate_armijo"
        )
    if slack is None:
        raise InputError(f"scaffold_sls(rule={rule!r}, slack=None): give slack; try 0.5")
    if rule == "drift_slack":
        return DriftSearch(alpha, 0.0, slack, grid=grid)
    return DriftSearch(alpha, 0.0, 0.0, slack / 2, grid=grid)
