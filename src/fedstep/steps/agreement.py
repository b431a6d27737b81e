"""A common client step that follows the agreement of successive rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec, dot, norm_sq
from fedstep.steps.rule import Outcome, Phi, StepRule


@dataclass(frozen=True)
class AgreementStep(StepRule):
    """Longer steps for all clients while a round's mean delta agrees with those before it.

        h = cos(D_t, M_{t-1}), 0 where either is 0;  log eta <- log eta + rate h
        M_t = memory M_{t-1} + (1 - memory) D_t;     clients step by min(eta, max_step)

    D_t is the mean delta of round t, M begins at 0. The mean M is the one *before* this round:
    one that held D_t already would always agree with it. Only the step used is bounded; its
    logarithm runs on, as in the program (FATHOM; Kan, 2022). The step travels with the model,
    M stays on the server.
    """

    step: float = 0.1  # of the first round
    rate: float = 0.01  # change of the logarithm at full agreement
    memory: float = 0.5  # of the mean delta, for one round
    max_step: float = 0.5  # no step used is longer
    intrinsic: ClassVar[bool] = True
    withheld = frozenset({"mean"})

    def __post_init__(self) -> None:
        if not self.step > 0:
            raise InputError(f"AgreementStep(step={self.step}): the first step must be positive")
        if not self.rate >= 0:
            raise InputError(f"AgreementStep(rate={self.rate}): the rate must be 0 or more")
        if not 0 <= self.memory < 1:
            raise InputError(f"AgreementStep(memory={self.memory}): it must lie in [0, 1)")
        if not self.max_step > 0:
            raise InputError(f"AgreementStep(max_step={self.max_step}): it must be positive")

    def init(self, x: Vec) -> NewState:
        first = min(self.step, self.max_step)
        return {"eta": x.new_full(x.shape[:-1], first)}

    def shared_init(self, x: Vec) -> NewState:
        return {
            "log": x.new_tensor(self.step).log(),
            "mean": torch.zeros_like(x),
        }

    def begin(
        self,
        x: Vec,
        shared: State,
        memory: State,
    ) -> NewState:
        eta = shared["log"].exp().clamp(max=self.max_step)
        return {"eta": eta.expand(x.shape[:-1])}

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        return Outcome.free(state["eta"]), dict(state)

    def fold(
        self,
        shared: State,
        message: State,
        agg: Aggregate,
    ) -> NewState:
        delta = agg.mean(agg.delta)
        agreement = cosine(delta, shared["mean"])
        return {
            "log": shared["log"] + self.rate * agreement,
            "mean": self.memory * shared["mean"] + (1 - self.memory) * delta,
        }


def cosine(a: Vec, b: Vec) -> Scalar:
    """The cosine of two vectors; 0 where one of them is 0 or not finite."""
    lengths = (norm_sq(a) * norm_sq(b)).sqrt()
    defined = torch.isfinite(lengths) & (lengths > 0)
    # divided in two places, so that the row that is masked out never divides by zero
    below = torch.where(defined, lengths, torch.ones_like(lengths))
    return torch.where(
        defined,
        dot(a, b) / below,
        torch.zeros_like(lengths),
    )
