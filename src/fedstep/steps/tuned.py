"""A common step that the server tunes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec, dot
from fedstep.steps.rule import Outcome, Phi, StepRule


@dataclass(frozen=True)
class Tuned(StepRule):
    """Longer steps for all clients while successive mean deltas agree (FedHyper-SL).

        eta = step * clip(1 + a, low, high);  a <- a + <D_t, D_{t-1}> at the end of round t

    a begins at 0 and is kept as it is; only the step is clipped. a travels with the model, the
    last mean delta does not (Wang et al., 2024).
    """

    step: float = 0.1  # that the factor multiplies
    low: float = 0.1  # smallest factor
    high: float = 10.0  # largest factor
    intrinsic: ClassVar[bool] = True
    withheld = frozenset({"delta"})

    def __post_init__(self) -> None:
        if not self.step >= 0:
            raise InputError(f"Tuned(step={self.step}): the step must be 0 or more")
        if not 0 <= self.low <= 1 <= self.high:
            raise InputError(
                f"Tuned(low={self.low}, high={self.high}): needs 0 <= low <= 1 <= high"
            )

    def init(self, x: Vec) -> NewState:
        return {"eta": x.new_full(x.shape[:-1], self.step)}

    def shared_init(self, x: Vec) -> NewState:
        return {"a": x.new_zeros(()), "delta": torch.zeros_like(x)}

    def begin(
        self,
        x: Vec,
        shared: State,
        memory: State,
    ) -> NewState:
        eta = self.step * (1 + shared["a"]).clamp(self.low, self.high)
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
        agreement = dot(delta, shared["delta"])
        # a product that overflows must not set the step of every later round to NaN
        known = torch.where(
            agreement.isfinite(),
            agreement,
            torch.zeros_like(agreement),
        )
        return {"a": shared["a"] + known, "delta": delta}
