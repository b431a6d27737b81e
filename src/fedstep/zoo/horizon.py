"""Methods whose steps follow from the length of the run, and from nothing of the problem."""

from __future__ import annotations

from dataclasses import dataclass

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.corrections.base import Correction
from fedstep.corrections.momentum_control import ControlledMomentum, OwnMomentum, ReducedMomentum
from fedstep.local.directions import Unit
from fedstep.local.solver import LocalSolver
from fedstep.server.rules import Length, ServerRule, Step
from fedstep.steps.fixed import Constant


@dataclass(frozen=True)
class _Run:
    """What must be known beforehand: rounds T, clients a round S, local steps K."""

    rounds: int
    cohort: int
    local_steps: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value >= 1:
                raise InputError(f"{name}={value}: give the run's, 1 or more")

    @property
    def work(self) -> int:
        """S K."""
        return self.cohort * self.local_steps


def padamfed(rounds: int = 200, cohort: int = 10, local_steps: int = 20) -> Algorithm:
    """SCAFFOLD with a momentum and local steps of a fixed length, set by the length of the run.

        v = beta (grad f_i(x) - c_i + c) + (1 - beta) g;  x <- x - eta v / |v|
        c_i, c, g as in `ControlledMomentum`;  x_{t+1} = x_t + gamma mean_i D_i / (eta K)
        beta = min(1, sqrt(S K / T)), gamma = (S K)^(1/4) T^(-3/4), eta = 1 / (K T)

    T rounds of S clients (`cohort`) with K local steps. Only v and what is exchanged are the
    paper's for certain; gamma, beta and eta are those of its successors (see the page).
    Paper: Yan et al., Problem-Parameter-Free Federated Learning, ICLR 2025.
    Special case: beta 1 is SCAFFOLD with normalised steps.
    """
    run = _Run(rounds, cohort, local_steps)
    beta = min(1.0, (run.work / rounds) ** 0.5)
    gamma = run.work**0.25 / rounds**0.75
    return _method(1 / (local_steps * rounds), ControlledMomentum(beta), Step(gamma))


def padamfed_vr(rounds: int = 200, cohort: int = 10, local_steps: int = 20) -> Algorithm:
    """PAdaMFed with gradients that are compared, batch by batch, at the model before.

        v = grad f_B(x) + beta (c - c_i) + (1 - beta) (g - grad f_B(x_{t-1}));  x <- x - eta v / |v|
        c_i and c as in padamfed;  g <- the mean of all v;  x_{t+1} = x_t + gamma mean_i D_i / (eta K)
        beta = min(1, gamma), gamma = (S K)^(1/3) T^(-2/3), eta = 1 / (K T)

    A local step costs a second gradient. g's rule is STORM's, not checked against the paper.
    Paper: Yan et al., Problem-Parameter-Free Federated Learning, ICLR 2025.
    Special case: beta 1 is SCAFFOLD with normalised steps.
    """
    run = _Run(rounds, cohort, local_steps)
    gamma = run.work ** (1 / 3) / rounds ** (2 / 3)
    return _method(1 / (local_steps * rounds), ReducedMomentum(min(1.0, gamma)), Step(gamma))


def parfrefl(rounds: int = 200, cohort: int = 10, local_steps: int = 20) -> Algorithm:
    """Clients keep a momentum and send its change alone; all steps have the length the run implies.

        v = beta grad f_i(x) + (1 - beta) m_i;  x <- x - eta v / |v|
        m_i <- mean of v over the round;  c <- c + S/N mean_i(change of m_i)
        x_{t+1} = x_t - gamma h / |h|,  h = c + mean_i(change of m_i), c before its change
        beta = min(1, sqrt(S K / T)), eta = 1 / (K (S K T)^(1/4)), gamma = (S K)^(1/4) T^(-3/4)

    One vector up and one down. Compressed (ComParFreFL): `codec=ErrorFeedback(TopK())`.
    Put together from descriptions, not from the paper's text (see the page).
    Paper: Yan et al., Robust Federated Learning Against Adaptive Compression, ICML 2026.
    Special case: one client and one local step: gradient descent with momentum, normalised.
    """
    run = _Run(rounds, cohort, local_steps)
    beta = min(1.0, (run.work / rounds) ** 0.5)
    eta = 1 / (local_steps * (run.work * rounds) ** 0.25)
    gamma = run.work**0.25 / rounds**0.75
    return _method(eta, OwnMomentum(beta), Length(gamma))


def _method(eta: float, correction: Correction, server: ServerRule) -> Algorithm:
    local = LocalSolver(Constant(eta), direction=Unit())
    return Algorithm(local, server, correction)
