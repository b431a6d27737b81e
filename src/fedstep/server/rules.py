"""What the server does with the mean direction d. Every rule leaves the step it took in its state as `eta_g`."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.vec import State, Vec, norm_sq


class ServerRule(Protocol):
    """What the server does with the mean direction."""

    def init(self, x: Vec) -> dict[str, Tensor]: ...
    def update(
        self, x: Vec, d: Vec, agg: Aggregate, state: State
    ) -> tuple[Vec, dict[str, Tensor]]: ...


def eta(x: Vec, value: float) -> dict[str, Tensor]:
    """The state entry that every rule reports."""
    return {"eta_g": x.new_full((), value)}


def check_step(rule: str, step: float) -> None:
    """Refuse a server step that is not positive."""
    if not step > 0:
        raise InputError(
            f"{rule}(step={step}): the server step must be positive; 1 is plain averaging"
        )


@dataclass(frozen=True)
class Step:
    """x + step * d: plain averaging for step 1."""

    step: float = 1.0

    def __post_init__(self) -> None:
        check_step("Step", self.step)

    def init(self, x: Vec) -> dict[str, Tensor]:
        return eta(x, self.step)

    def update(self, x: Vec, d: Vec, agg: Aggregate, state: State) -> tuple[Vec, dict[str, Tensor]]:
        return x + self.step * d, dict(state)


@dataclass(frozen=True)
class HeavyBall:
    """m <- beta m + d;  x + step * m (FedAvgM; no dampening)."""

    step: float = 1.0
    beta: float = 0.9

    def __post_init__(self) -> None:
        check_step("HeavyBall", self.step)
        if not 0 <= self.beta < 1:
            raise InputError(f"HeavyBall(beta={self.beta}): beta must lie in [0, 1)")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"momentum": torch.zeros_like(x), **eta(x, self.step)}

    def update(self, x: Vec, d: Vec, agg: Aggregate, state: State) -> tuple[Vec, dict[str, Tensor]]:
        m = self.beta * state["momentum"] + d
        return x + self.step * m, {**state, "momentum": m}


@dataclass(frozen=True)
class Extrapolate:
    """Go further the more the clients' deltas disagree (FedExP; Jhunjhunwala et al., 2023).

        eta_g = clip(mean |delta_i|^2 / (2 (|d|^2 + eps)), min_step, max_step);  x + eta_g * d

    The mean is the weighted one of the round. Without eps the ratio is at least 1/2 (Jensen), and 1/2 when all deltas are
    equal. eps keeps it from exploding when the deltas cancel; it is decayed by `decay` before every round. The authors'
    program multiplies eps by the number of clients of the round (`eps_per_client`). eta_g = min_step when d = 0.
    """

    eps: float = 1e-3
    max_step: float = inf
    min_step: float = 1.0
    decay: float = 1.0
    eps_per_client: bool = False

    def __post_init__(self) -> None:
        if not self.eps >= 0:
            raise InputError(
                f"Extrapolate(eps={self.eps}): eps must be 0 or more; the paper uses 0.001"
            )
        if not 0 <= self.min_step <= self.max_step:
            raise InputError(
                f"Extrapolate(max_step={self.max_step}): max_step must be at least min_step={self.min_step}"
            )
        if not 0 < self.decay <= 1:
            raise InputError(f"Extrapolate(decay={self.decay}): the decay must lie in (0, 1]")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"eps": torch.tensor(self.eps, dtype=torch.float64), **eta(x, 1.0)}

    def update(self, x: Vec, d: Vec, agg: Aggregate, state: State) -> tuple[Vec, dict[str, Tensor]]:
        eps = state["eps"] * self.decay
        floor = eps * (agg.clients if self.eps_per_client else 1)
        below = 2 * (norm_sq(d) + floor.to(d.dtype))
        ratio = torch.where(below > 0, agg.mean(agg.norm_sq) / below, torch.zeros_like(below))
        eta_g = ratio.clamp(self.min_step, self.max_step)
        return x + eta_g * d, {"eps": eps, "eta_g": eta_g}
