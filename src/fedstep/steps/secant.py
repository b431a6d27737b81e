"""Steps from how much the gradient changed over the last step."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec, norm_sq
from fedstep.steps.rule import Differentiable, Outcome, Phi, StepRule


@dataclass(frozen=True)
class SecantStep(StepRule):
    """The step that the last change of the gradient allows (Kim et al., 2024).

        eta_k = min(gamma |x_k - x_{k-1}| / (2 |g_k - g_k'|), sqrt(1 + delta theta_{k-1}) eta_{k-1})
        theta_k = eta_k / eta_{k-1}

    g_k and g_k' are the gradients at x_k and at x_{k-1}, both on the batch at hand, so that their
    difference is curvature and nothing else: two gradients a step but for the first. A round
    begins with eta_0 = start and theta_0 = theta. (Malitsky and Mishchenko, 2020, for one
    machine.)
    """

    start: float = 0.2  # first step of a round
    gamma: float = 2.0  # 1 is the safe choice of one machine
    delta: float = 0.1  # how fast steps may grow
    theta: float = 1.0  # growth before the first step

    def __post_init__(self) -> None:
        _check_positive("SecantStep", start=self.start, gamma=self.gamma)
        _check_not_negative("SecantStep", delta=self.delta, theta=self.theta)

    def init(self, x: Vec) -> NewState:
        zero = x.new_zeros(x.shape[:-1])
        # a last step of 0 marks the first step of a round
        return {"step": zero, "theta": zero + self.theta, "x": torch.zeros_like(x)}

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        last = state["step"]
        fresh = last == 0
        moved = norm_sq(x - state["x"]).sqrt()
        turned = gradient_change(
            phi,
            state["x"],
            g,
            ~fresh,
        )
        allowed = torch.where(
            turned > 0,
            self.gamma * moved / (2 * turned),
            inf,
        )
        grown = (1 + self.delta * state["theta"]).sqrt() * last
        step = torch.minimum(allowed, grown)
        step = torch.where(fresh, self.start, step)
        # a step of 0 (no move since the last batch) must not freeze the client for the round
        step = torch.where(
            ~fresh & (moved == 0),
            last,
            step,
        )
        ratio = step / torch.where(fresh, 1.0, last)
        theta = torch.where(fresh, state["theta"], ratio)
        return Outcome.free(step), {"step": step, "theta": theta, "x": x}


@dataclass(frozen=True)
class ProgramSecantStep(StepRule):
    """SecantStep as its authors' program runs it.

        grown = sqrt(1 + amplifier theta_{k-1}) eta_{k-1}
        eta_k = min(grown, |x_k - x_{k-1}| / (damping |g_k - g_k'|)) + eps
        eta_k = grown where one of the differences is 0;  theta_k = eta_k / eta_{k-1}

    The program compares with its own start in the first step too, so that eta_0 is
    start sqrt(1 + amplifier), and pays for that comparison: two gradients in every step.
    """

    start: float = 0.2  # first step of a round
    amplifier: float = 0.02  # how fast steps may grow
    damping: float = 1.0  # of the step that the curvature allows
    eps: float = 1e-8  # the program adds it to every step

    def __post_init__(self) -> None:
        _check_positive("ProgramSecantStep", start=self.start, damping=self.damping)
        _check_not_negative("ProgramSecantStep", amplifier=self.amplifier, eps=self.eps)

    def init(self, x: Vec) -> NewState:
        one = x.new_ones(x.shape[:-1])
        return {"step": self.start * one, "theta": one, "x": x}

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        moved = norm_sq(x - state["x"]).sqrt()
        everybody = torch.ones_like(moved, dtype=torch.bool)
        turned = gradient_change(phi, state["x"], g, everybody)
        grown = (1 + self.amplifier * state["theta"]).sqrt() * state["step"]
        known = (moved > 0) & (turned > 0)
        allowed = moved / (
            self.damping
            * torch.where(
                known,
                turned,
                1.0,
            )
        )
        step = torch.where(
            known,
            torch.minimum(grown, allowed) + self.eps,
            grown,
        )
        theta = step / state["step"]
        return Outcome.free(step), {"step": step, "theta": theta, "x": x}


def gradient_change(
    phi: Phi,
    before: Vec,
    g: Vec,
    wanted: Tensor,
) -> Scalar:
    """|g - gradient at the point before|, on the batch at hand; 0 for clients that do not ask.

    A second gradient: it is counted for those who ask, and evaluated if anybody does.
    """
    if not isinstance(phi, Differentiable):
        raise InputError("a secant step compares gradients on one batch: use it in a LocalSolver")
    asking = int(wanted.sum())
    if asking == 0:
        return g.new_zeros(g.shape[:-1])
    phi.work.add(asking, 1, 1)
    _, gradient_before = phi.gradient(before)
    change = norm_sq(g - gradient_before).sqrt()
    return torch.where(wanted, change, torch.zeros_like(change))


def _check_positive(part: str, **values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise InputError(f"{part}({name}={value}): {name} must be positive")


def _check_not_negative(part: str, **values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise InputError(f"{part}({name}={value}): {name} must be 0 or more")
