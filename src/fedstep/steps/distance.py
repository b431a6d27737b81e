"""A step from the distance travelled."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec, norm_sq
from fedstep.steps.rule import Outcome, Phi, StepRule


@dataclass(frozen=True)
class DistanceOverGradients(StepRule):
    """DoG (Ivgi et al., 2023): how far the client has come, over how much gradient it has seen.

        eta_k = scale * max_{i <= k} |x_i - x_0| / sqrt(eps + sum_{i <= k} |g_i|^2)

    The distance begins at reach (1 + |x_0|); with `first` the first step is that number and the
    distance begins at 0. x_0 is where the client first began: the state outlives the round
    (`carry`), or a client would never leave the tiny first steps.
    """

    reach: float = 1e-6  # first distance, relative to 1 + |x_0|
    scale: float = 1.0  # of all steps; 1 in the paper
    eps: float = 1e-8  # under the root: a first gradient of 0 divides by it
    first: float | None = None  # a first step of this size instead of the reach
    carry: bool = True  # the distance is that of the client's whole life

    def __post_init__(self) -> None:
        for name in ("reach", "scale", "eps"):
            value = getattr(self, name)
            if not value > 0:
                raise InputError(f"DistanceOverGradients({name}={value}): {name} must be positive")
        if self.first is not None and not self.first > 0:
            raise InputError(
                f"DistanceOverGradients(first={self.first}): the first step must be positive, "
                "or None"
            )

    def init(self, x: Vec) -> NewState:
        zero = x.new_zeros(x.shape[:-1])
        distance = zero
        if self.first is None:
            distance = self.reach * (1 + norm_sq(x).sqrt())
        return {
            "origin": x,
            "distance": distance,
            "gradients": zero + self.eps,
            "steps": zero,
        }

    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        travelled = norm_sq(x - state["origin"]).sqrt()
        distance = torch.maximum(state["distance"], travelled)
        gradients = state["gradients"] + norm_sq(g)
        step = self.scale * distance / gradients.sqrt()
        if self.first is not None:
            step = torch.where(
                state["steps"] == 0,
                self.first,
                step,
            )
        after = {
            "origin": state["origin"],
            "distance": distance,
            "gradients": gradients,
            "steps": state["steps"] + 1,
        }
        return Outcome.free(step), after
