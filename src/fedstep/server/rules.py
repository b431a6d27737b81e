"""What the server does with the mean direction d."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import inf

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec, norm_sq


@dataclass(frozen=True)
class ServerStep:
    """What a rule answers: the next model, the step it took, and its state for the next round."""

    x: Vec
    eta_g: Scalar
    state: State = field(default_factory=dict)


class ServerRule(ABC):
    """What the server does with the mean direction."""

    @property
    def usual_step(self) -> float:
        """The step that is reported before the first one is taken."""
        # a first round in which no client counted takes no step, and its row wants a number
        return 1.0

    def init(self, x: Vec) -> NewState:
        """The state before the first round."""
        return {}

    @abstractmethod
    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        """One step from x along d; `agg` is the sum of the round's clients."""


def check_step(rule: str, step: float) -> None:
    """Refuse a server step that is not positive."""
    if not step > 0:
        raise InputError(
            f"{rule}(step={step}): the server step must be positive; 1 is plain averaging"
        )


@dataclass(frozen=True)
class Step(ServerRule):
    """x + step * d: plain averaging for step 1."""

    step: float = 1.0

    def __post_init__(self) -> None:
        check_step("Step", self.step)

    @property
    def usual_step(self) -> float:
        return self.step

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        return ServerStep(
            x=x + self.step * d,
            # of the model's dtype, as all steps are: rows and checkpoints hold what was multiplied
            eta_g=x.new_full((), self.step),
        )


@dataclass(frozen=True)
class Length(ServerRule):
    """x + step * d / |d|: the server goes the same length in every round; none where d is 0."""

    step: float = 0.1

    def __post_init__(self) -> None:
        if not self.step > 0:
            raise InputError(f"Length(step={self.step}): the length must be positive")

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        length = norm_sq(d).sqrt()
        some = length > 0
        eta_g = torch.where(some, self.step / torch.where(some, length, 1.0), 0.0)
        return ServerStep(x=x + eta_g * d, eta_g=eta_g)


@dataclass(frozen=True)
class HeavyBall(ServerRule):
    """m <- beta m + d;  x + step * m (FedAvgM; no dampening)."""

    step: float = 1.0
    beta: float = 0.9  # memory of the momentum

    def __post_init__(self) -> None:
        check_step("HeavyBall", self.step)
        if not 0 <= self.beta < 1:
            raise InputError(f"HeavyBall(beta={self.beta}): beta must lie in [0, 1)")

    @property
    def usual_step(self) -> float:
        return self.step

    def init(self, x: Vec) -> NewState:
        return {"momentum": torch.zeros_like(x)}

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        # d whole, not (1 - beta) d: a constant d is taken 1 / (1 - beta) times in the long run
        m = self.beta * state["momentum"] + d
        return ServerStep(
            x=x + self.step * m,
            eta_g=x.new_full((), self.step),
            state={"momentum": m},
        )


@dataclass(frozen=True)
class Extrapolate(ServerRule):
    """Go further the more the clients' deltas disagree (FedExP; Jhunjhunwala et al., 2023).

        eta_g = clip(mean |delta_i|^2 / (2 (|d|^2 + eps)), min_step, max_step);  x + eta_g * d

    The mean is the weighted one of the round. Without eps the ratio is at least 1/2 (Jensen), and
    1/2 when all deltas are equal. eps keeps it from exploding when the deltas cancel; it is decayed
    by `decay` before every round. The authors' program multiplies eps by the number of clients of
    the round (`eps_per_client`). eta_g = min_step when d = 0.
    """

    eps: float = 1e-3  # of the unit of a squared length, so it depends on the model's size
    max_step: float = (
        inf  # the algorithm has none; deltas that nearly cancel ask for steps of hundreds
    )
    min_step: float = 1.0  # 1: never less than plain averaging
    decay: float = 1.0  # the program's 0.998^2 follows the decay of its clients' steps
    eps_per_client: bool = False  # the program sums over clients where the paper takes means

    def __post_init__(self) -> None:
        if not self.eps >= 0:
            raise InputError(
                f"Extrapolate(eps={self.eps}): eps must be 0 or more; the program uses 0.001"
            )
        if not 0 <= self.min_step <= self.max_step:
            raise InputError(
                f"Extrapolate(max_step={self.max_step}): "
                f"max_step must be at least min_step={self.min_step}"
            )
        if not 0 < self.decay <= 1:
            raise InputError(f"Extrapolate(decay={self.decay}): the decay must lie in (0, 1]")

    def init(self, x: Vec) -> NewState:
        # float64 whatever the model's precision: the decay multiplies it for hundreds of rounds
        return {"eps": torch.tensor(self.eps, dtype=torch.float64)}

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        # before use, as the program does it: the first round has eps * decay already
        eps = state["eps"] * self.decay
        floor = eps
        if self.eps_per_client:
            floor = eps * agg.clients
        below = 2 * (norm_sq(d) + floor.to(d.dtype))
        ratio = agg.mean(agg.norm_sq) / below
        # d = 0 and eps = 0: the round does not move, whatever the step is
        ratio = torch.where(below > 0, ratio, torch.zeros_like(below))
        eta_g = ratio.clamp(self.min_step, self.max_step)
        return ServerStep(
            x=x + eta_g * d,
            eta_g=eta_g,
            state={"eps": eps},
        )
