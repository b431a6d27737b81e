"""Line search on the clients: the paper's own methods."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.local.solver import LocalSolver
from fedstep.server.rules import Extrapolate, Step
from fedstep.steps.conditions import Armijo, Condition
from fedstep.steps.proposals import Parabola, Proposal
from fedstep.steps.references import Current, Reference
from fedstep.steps.resets import Fitted, Grow, Reset
from fedstep.steps.search import FIRST_STEP, LineSearch


def fedsls(
    c: float = 0.1,
    max_step: float = FIRST_STEP,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0),
    server_step: float = 1.0,
    carry: bool = False,
    largest: bool = False,
    condition: Condition | None = None,
    reference: Reference = Current(),
    proposal: Proposal | None = None,
    share: bool = False,
) -> Algorithm:
    """Clients find every step by an Armijo line search on the mini-batch at hand. No learning rate.

        eta = the first of eta_0, shrink eta_0, shrink^2 eta_0, ...
            with f(x - eta g) <= f(x) - c eta |g|^2
        x_{t+1} = x_t + server_step * D

    f, g and the trials see the same batch. eta_0 is max_step in the first step of a round, then
    what `reset` makes of the last accepted step: Keep, Restart or Grow. `condition` (None:
    Armijo(c)) and `reference` make it another search: Goldstein(), ImprovedGoldstein(), Wolfe(),
    StrongWolfe(); Grippo(), ZhangHager(). A round begins at max_step; with `carry` at the client's
    last step, with `share` at the cohort's, sent with the model. Few trials: `fedsls_lean`. The
    paper prints no number for max_step, c, shrink and the growth: docs/authors.md has its program's.
    Works where one step suits most clients: untuned it is level with tuned FedAvg on FEMNIST, and
    below it on CIFAR-10 with a LeNet. Costs a forward pass a trial, one to four trials a step.
    Measured: docs/paper-results.md.
    Paper: Painless Federated Learning: An Interplay of Line-search and Extrapolation (FedSLS,
    Algorithm 4).
    Special case: a max_step that is always accepted: FedAvg with that step.
    """
    rule = _condition(c, condition)
    search = LineSearch(
        rule,
        reset=reset,
        reference=reference,
        max_step=max_step,
        shrink=shrink,
        carry=carry,
        largest=largest,
        proposal=proposal,
        share=share,
    )
    return Algorithm(LocalSolver(search), Step(server_step))


def fedexpsls(
    c: float = 0.1,
    max_step: float = FIRST_STEP,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0),
    eps: float = 1e-3,
    max_server_step: float = inf,  # as in Algorithm 5; bound it where clients disagree
    carry: bool = False,
    largest: bool = False,
    condition: Condition | None = None,
    reference: Reference = Current(),
    proposal: Proposal | None = None,
    share: bool = False,
) -> Algorithm:
    """FedSLS clients under the FedExP server: no learning rate on either side.

        clients as in fedsls;  eta_g = max(1, sum_i |D_i|^2 / (2 |S| (|D|^2 + eps)))
        x_{t+1} = x_t + eta_g * D

    The last model is shipped, as Algorithm 5 has it. The paper's program scores the mean of the
    last two: `fedexpsls(readout=LastTwo())`.
    Works where the clients' deltas agree. Where they do not, eta_g overshoots and the accuracy
    swings: on FEMNIST and CIFAR-10 it is below fedsls. Costs what fedsls costs, and one number up.
    Measured: docs/paper-results.md.
    Paper: Painless Federated Learning: An Interplay of Line-search and Extrapolation (FedExpSLS,
    Algorithm 5).
    Special case: a very large eps gives eta_g 1, FedSLS.
    """
    clients = fedsls(
        c,
        max_step=max_step,
        shrink=shrink,
        reset=reset,
        carry=carry,
        largest=largest,
        condition=condition,
        reference=reference,
        proposal=proposal,
        share=share,
    )
    return replace(clients, server=Extrapolate(eps, max_server_step))


def fedsls_lean(
    c: float = 0.1, max_step: float = FIRST_STEP, aim: float = 0.6, server_step: float = 1.0
) -> Algorithm:
    """FedSLS with about one trial a step: for models whose forward pass is the cost.

        eta_0 = where the parabola through the last accepted trials has decreased by `aim`
            of what its slope promised
        a round begins with the geometric mean of the cohort's last steps, one number sent
            with the model

    The condition is FedSLS's own: every step taken satisfies f(x - eta g) <= f(x) - c eta |g|^2 on
    its batch. What differs is where a search begins (Fitted, share) and where it goes after a
    refusal (Parabola).
    Paper: none; the first guess is a choice of this library.
    Special case: on a quadratic every search but the first takes one trial, at 2 (1 - aim) / L.
    """
    return fedsls(
        c,
        max_step=max_step,
        reset=Fitted(aim),  # where a search begins within a round
        share=True,  # where the first of a round begins
        proposal=Parabola(aim),  # where it goes after a refusal
        server_step=server_step,
    )


def fedsls_adaptive(
    c: float = 0.1,
    max_step: float = FIRST_STEP,
    shrink: float = 0.9,
    least: float = 0.01,
    server_step: float = 1.0,
) -> Algorithm:
    """FedSLS that shortens a refused step by as much as the refusal says (adaptive backtracking).

        v = (f(x + eta d) - f(x)) / (c eta <g, d>), accepted where v >= 1
        otherwise eta <- eta max(least, shrink (1 - c) / (1 - c v))

    The factor is `shrink` times the largest step that the parabola through f, its slope and the
    trial allows: a search that begins far too long takes a few trials in the place of dozens.
    Paper: Cavalcanti, Lessard and Wilson, Adaptive Backtracking Line Search, ICLR 2025; `least` is
    a choice of this library.
    Special case: least = shrink is FedSLS.
    """
    adaptive = Parabola(aim=1 - shrink * (1 - c), least=least)
    return fedsls(
        c,
        max_step=max_step,
        shrink=shrink,
        proposal=adaptive,
        server_step=server_step,
    )


def _condition(c: float, condition: Condition | None) -> Condition:
    if condition is None:
        return Armijo(c)
    # a c that is given besides would be ignored in silence
    if c != Armijo().c:
        name = type(condition).__name__
        raise InputError(
            f"c={c} with condition={name}: c is Armijo's; give {name} its own constants instead"
        )
    return condition
