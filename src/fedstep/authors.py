"""The methods as the published programs run them, where that is not what the papers print.

Two programs: FedExP's (Jhunjhunwala et al., 2023) and, built on it, the one of Painless Federated
Learning. Both weight clients by their numbers of samples, multiply the extrapolation's eps by the
number of clients and decay it by 0.998^2 a round before it is used, and evaluate the mean of the
last two iterates of extrapolated methods. Their SGD clients clip the gradient to norm 10 and then
add weight decay 1e-4; the step of round t = 0, 1, ... is step * decay^(t + 1). Their line-search
clients neither clip nor decay, start every round at `start`, grow by 2^(1/500) a step, know no
largest step, and on failure move by 1e-6. `docs/authors.md` maps every program run to a call.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from fedstep.algorithm import Algorithm
from fedstep.corrections.control_variates import MeanControl
from fedstep.local.directions import Chain, Clip, Decay
from fedstep.local.solver import LocalSolver
from fedstep.local.terms import Proximal
from fedstep.server.program_variants import (
    ProgramAdagrad,
    ProgramAdam,
    ProgramAdamExtrapolate,
    ProgramExtrapolate,
)
from fedstep.server.readouts import LastTwo
from fedstep.server.rules import Extrapolate, HeavyBall, Step
from fedstep.server.weighting import BySamples
from fedstep.steps.conditions import Armijo, Condition, Goldstein
from fedstep.steps.failures import Failure, LastTrial, Nudge
from fedstep.steps.fixed import Schedule
from fedstep.steps.proposals import Factors, Proposal
from fedstep.steps.resets import Grow, Keep, Reset
from fedstep.steps.search import LineSearch
from fedstep.steps.secant import ProgramSecantStep


def fedavg(
    step: float = 0.01,
    decay: float = 1.0,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
    server_step: float = 1.0,
) -> Algorithm:
    """FedAvg of the programs: clipped SGD with weight decay, weighted mean."""
    # in this order: the decay is added to the clipped gradient, and is not clipped itself
    direction = Chain((Clip(clip), Decay(weight_decay)))
    # the program decays before the first round, not after it
    client = LocalSolver(Schedule(step * decay, decay), direction)
    return Algorithm(client, Step(server_step), weighting=BySamples())


def fedavgm(
    step: float = 0.316,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
    server_step: float = 1.0,
) -> Algorithm:
    """FedAvgM of the FedExP program."""
    return replace(fedavg(step, decay, weight_decay, clip), server=HeavyBall(server_step, 0.9))


def fedprox(
    step: float = 0.01,
    mu: float = 0.1,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """FedProx of the programs: the proximal term is part of the clipped gradient."""
    plain = fedavg(step, decay, weight_decay, clip)
    return replace(plain, local=replace(plain.local, terms=(Proximal(mu),)))


def fedexp(
    step: float = 0.01,
    eps: float = 1e-3,
    decay: float = 1.0,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """FedExP of the programs."""
    return _extrapolated(fedavg(step, decay, weight_decay, clip), eps)


def fedprox_exp(
    step: float = 0.01,
    mu: float = 0.1,
    eps: float = 0.0,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """FedProx clients with extrapolation: the curves labelled FedExProx in the paper."""
    return _extrapolated(
        fedprox(
            step,
            mu,
            decay,
            weight_decay,
            clip,
        ),
        eps,
    )


def fedadagrad(
    step: float = 0.1,
    server_step: float = 0.316,
    eps: float = 0.0316,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """FedAdagrad of the FedExP program: eps inside the root."""
    return replace(fedavg(step, decay, weight_decay, clip), server=ProgramAdagrad(server_step, eps))


def fedadam(
    step: float = 0.1,
    server_step: float = 0.316,
    eps: float = 0.0316,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """FedAdam of the FedExP program: second moment of the momentum, constant bias correction."""
    return replace(fedavg(step, decay, weight_decay, clip), server=ProgramAdam(server_step, eps))


def fedsls(
    c: float = 0.1,
    start: float = 1.0,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0, per=500),
    trials: int = 100,
    failure: Failure = Nudge(1e-6),
    server_step: float = 1.0,
) -> Algorithm:
    """FedSLS of the program: the SLS optimiser with its defaults, made anew every round."""
    return _searching(
        Armijo(c),
        start,
        shrink,
        reset,
        trials,
        failure,
        None,
        server_step,
    )


def fedexpsls(
    c: float = 0.1,
    start: float = 1.0,
    shrink: float = 0.9,
    reset: Reset = Grow(2.0, per=500),
    trials: int = 100,
    failure: Failure = Nudge(1e-6),
    eps: float = 1e-3,
) -> Algorithm:
    """FedExpSLS of the program."""
    return _extrapolated(
        fedsls(
            c,
            start,
            shrink,
            reset,
            trials,
            failure,
        ),
        eps,
    )


def fedsls_goldstein(
    c: float = 0.1,
    start: float = 1.0,
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
        cap=max_step,
        floor=1e-8,
    )
    return _searching(
        Goldstein(c),
        start,
        shrink,
        reset,
        trials,
        failure,
        factors,
        server_step,
    )


def fedexpsls_goldstein(
    c: float = 0.1,
    start: float = 1.0,
    shrink: float = 0.9,
    grow: float = 2.0,
    max_step: float = 10.0,
    reset: Reset = Keep(),
    trials: int = 100,
    failure: Failure = LastTrial(),
    eps: float = 1e-3,
) -> Algorithm:
    """FedExpSLS of the program with the SLS optimiser's Goldstein conditions."""
    return _extrapolated(
        fedsls_goldstein(
            c,
            start,
            shrink,
            grow,
            max_step,
            reset,
            trials,
            failure,
        ),
        eps,
    )


def fedadamsls(
    c: float = 0.1,
    start: float = 1.0,
    server_step: float = 0.1,
    eps: float = 0.01,
) -> Algorithm:
    """Line-search clients under the Adam server of the program: the authors' later fedadamsls."""
    return replace(fedsls(c, start), server=ProgramAdam(server_step, eps))


def fedadamexpsls(
    c: float = 0.1,
    start: float = 1.0,
    eps: float = 1e-3,
    root_eps: float = 0.01,
) -> Algorithm:
    """The same with an extrapolated step along Adam's direction: the later fedadamexpsls."""
    server = ProgramAdamExtrapolate(eps, root_eps)
    return replace(
        fedsls(c, start),
        server=server,
        readout=LastTwo(),
    )


def delta_sgd(
    start: float = 0.2,
    amplifier: float = 0.02,
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
    return Algorithm(LocalSolver(step), Step(1.0))


def _searching(
    condition: Condition,
    start: float,
    shrink: float,
    reset: Reset,
    trials: int,
    failure: Failure,
    proposal: Proposal | None,
    server_step: float,
) -> Algorithm:
    """Clients with the SLS optimiser: no largest step, no slack."""
    search = LineSearch(
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
    return Algorithm(
        LocalSolver(search),
        Step(server_step),
        weighting=BySamples(),
    )


def _extrapolated(clients: Algorithm, eps: float) -> Algorithm:
    rule = Extrapolate(
        eps,
        decay=0.998**2,  # eps is beside squares, which fall with the square of the steps' decay
        eps_per_client=True,
    )
    return replace(
        clients,
        server=rule,
        readout=LastTwo(),
    )


def fedavgm_exp(
    step: float = 0.316,
    eps: float = 0.1,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """FedAvgM-Exp of the FedExP program.

    A running sum in the extrapolation, and no momentum because of a misspelt name.
    """
    clients = fedavg(step, decay, weight_decay, clip)
    return replace(
        clients,
        server=ProgramExtrapolate(eps),
        readout=LastTwo(),
    )


def scaffold(
    step: float = 0.01,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
    server_step: float = 1.0,
) -> Algorithm:
    """SCAFFOLD of the FedExP program.

    Option II, c weighted by samples over all clients, the tilted gradient clipped.
    """
    return replace(
        fedavg(
            step,
            decay,
            weight_decay,
            clip,
            server_step,
        ),
        correction=MeanControl(),
    )


def scaffold_exp(
    step: float = 0.01,
    eps: float = 1e-3,
    decay: float = 0.998,
    weight_decay: float = 1e-4,
    clip: float = 10.0,
) -> Algorithm:
    """SCAFFOLD clients with extrapolation, of the FedExP program."""
    return _extrapolated(
        scaffold(
            step,
            decay,
            weight_decay,
            clip,
        ),
        eps,
    )
