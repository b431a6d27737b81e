"""Server rules as published programs compute them, where that is not what the papers print.

FedExP's program (Program...) and flwr 1.41 (Flower...).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.nested import join, part
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, State, Vec, norm_sq
from fedstep.server.rules import Extrapolate, ServerRule, ServerStep, check_step


@dataclass(frozen=True)
class ProgramAdagrad(ServerRule):
    """v <- v + d^2;  x + step * d / sqrt(v + eps): eps inside the root, v begins at 0."""

    step: float = 0.1
    eps: float = 0.01

    @property
    def usual_step(self) -> float:
        return self.step

    def init(self, x: Vec) -> NewState:
        return {"v": torch.zeros_like(x)}

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        # eps inside the root, where the paper adds tau outside
        v = state["v"] + d * d
        return ServerStep(
            x=x + self.step * d / (v + self.eps).sqrt(),
            eta_g=x.new_full((), self.step),
            state={"v": v},
        )


@dataclass(frozen=True)
class ProgramAdam(ServerRule):
    """m <- 0.9 m + 0.1 d;  v <- 0.99 v + 0.01 m^2;  x + step * (m / 0.1) / sqrt(v / 0.01 + eps).

    The second moment is of the momentum, not of d, and both moments are divided by constants in
    place of 1 - beta^t.
    """

    step: float = 0.1
    eps: float = 0.01

    @property
    def usual_step(self) -> float:
        return self.step

    def init(self, x: Vec) -> NewState:
        return {
            "m": torch.zeros_like(x),
            "v": torch.zeros_like(x),
        }

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        m = 0.9 * state["m"] + 0.1 * d
        # m * m, not d * d: a slip of the program that its tuned steps depend on
        v = 0.99 * state["v"] + 0.01 * m * m
        return ServerStep(
            x=x + self.step * (m / 0.1) / (v / 0.01 + self.eps).sqrt(),
            eta_g=x.new_full((), self.step),
            state={"m": m, "v": v},
        )


@dataclass(frozen=True)
class ProgramAdamExtrapolate(ServerRule):
    """Extrapolation along the direction u of `ProgramAdam`.

        eta_g = max(1, mean |delta_i|^2 / (2 (|u|^2 + |S| eps)));  x + eta_g * u

    u = (m / 0.1) / sqrt(v / 0.01 + root_eps) with the moments of `ProgramAdam`. The ratio compares
    the length of deltas with that of u, whose coordinates are all near 1: most often eta_g is 1.
    """

    eps: float = 1e-3
    root_eps: float = 0.01

    def init(self, x: Vec) -> NewState:
        return {
            "m": torch.zeros_like(x),
            "v": torch.zeros_like(x),
        }

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        m = 0.9 * state["m"] + 0.1 * d
        v = 0.99 * state["v"] + 0.01 * m * m
        # divided by constants as ProgramAdam does: not Adam's bias correction
        u = (m / 0.1) / (v / 0.01 + self.root_eps).sqrt()
        below = 2 * (norm_sq(u) + agg.clients * self.eps)
        eta_g = (agg.mean(agg.norm_sq) / below).clamp(min=1.0)
        return ServerStep(
            x=x + eta_g * u,
            eta_g=eta_g,
            state={"m": m, "v": v},
        )


@dataclass(frozen=True)
class ExtrapolateAlong(ServerRule):
    """The step of another rule, times the extrapolation of the deltas themselves.

        eta_g = that of `ratio`, made of the deltas and their mean d
        x + eta_g * (along(x) - x)

    The paper's program takes Adam's step and the ratio of the raw mean delta. What is reported as
    eta_g is the product of both steps.
    """

    along: ServerRule
    ratio: Extrapolate

    def __post_init__(self) -> None:
        check_slots(self, along=ServerRule, ratio=Extrapolate)

    @property
    def usual_step(self) -> float:
        return self.along.usual_step

    def init(self, x: Vec) -> NewState:
        return join(along=self.along.init(x), ratio=self.ratio.init(x))

    def update(self, x: Vec, d: Vec, agg: Aggregate, state: State) -> ServerStep:
        plain = self.along.update(x, d, agg, part(state, "along"))
        longer = self.ratio.update(x, d, agg, part(state, "ratio"))
        return ServerStep(
            x=x + longer.eta_g * (plain.x - x),
            eta_g=longer.eta_g * plain.eta_g,
            state=join(along=plain.state, ratio=longer.state),
        )


@dataclass(frozen=True)
class FlowerAdam(ServerRule):
    """What flwr 1.41 runs as FedAdam.

        m <- beta m + (1 - beta) d;  v <- beta2 v + (1 - beta2) d^2
        x + step_t * m / (sqrt(v) + tau),  t = 1, 2, ...
        step_t = step * sqrt(1 - beta2^(t + 1)) / (1 - beta^(t + 1))

    Corrected for bias with the exponent t + 1 in the place of Adam's t, and v begins at 0. A
    coordinate with v = tau = 0 does not move.
    """

    step: float = 0.1
    beta: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3  # Flower's own default is 1e-9

    def __post_init__(self) -> None:
        check_step("FlowerAdam", self.step)
        if not (0 <= self.beta < 1 and 0 <= self.beta2 < 1):
            raise InputError(
                f"FlowerAdam(beta={self.beta}, beta2={self.beta2}): both must lie in [0, 1)"
            )

    @property
    def usual_step(self) -> float:
        return self.step

    def init(self, x: Vec) -> NewState:
        zero = torch.zeros_like(x)
        return {
            "m": zero,
            "v": zero,
            "t": torch.zeros((), dtype=torch.int64),
        }

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        t = state["t"] + 1
        m = self.beta * state["m"] + (1 - self.beta) * d
        v = self.beta2 * state["v"] + (1 - self.beta2) * d * d
        # t counts from 1 here and flwr's counter is one ahead of Adam's: kept, not mended
        power = int(t) + 1
        step = self.step * (1 - self.beta2**power) ** 0.5 / (1 - self.beta**power)
        below = v.sqrt() + self.tau
        move = torch.where(below > 0, m / below, torch.zeros_like(m))
        return ServerStep(
            x=x + step * move,
            eta_g=x.new_full((), step),
            state={
                "m": m,
                "v": v,
                "t": t,
            },
        )


@dataclass(frozen=True)
class ProgramExtrapolate(ServerRule):
    """Extrapolation by a running sum of squared norms.

        r <- mean |delta_i|^2 + 0.45 r;  eta_g = r / (2 (|d|^2 + |S| eps));  x + eta_g * d

    eta_g is not kept above 1. It was written for a server with momentum, which the program leaves
    out because of a misspelt name. eps is decayed by `decay` before every round.
    """

    eps: float = 0.1
    decay: float = 0.998**2  # as the program's other extrapolation

    def init(self, x: Vec) -> NewState:
        return {
            "eps": torch.tensor(self.eps, dtype=torch.float64),
            "running": x.new_zeros(()),
        }

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        eps = self.decay * state["eps"]
        # 0.9 * 0.5, as the program writes it: 0.45 rounds differently
        running = agg.mean(agg.norm_sq) + 0.9 * 0.5 * state["running"]
        # eps per client, as in the program's other extrapolation
        below = 2 * (norm_sq(d) + (agg.clients * eps).to(d.dtype))
        eta_g = torch.where(below > 0, running / below, torch.ones_like(below))
        return ServerStep(
            x=x + eta_g * d,
            eta_g=eta_g,
            state={"eps": eps, "running": running},
        )
