"""Clients mimic one optimiser on the common function: its statistics are the server's and stay frozen in a round (Mime)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context
from fedstep.core.vec import State, Vec
from fedstep.corrections.base import Correction
from fedstep.local.terms import Linear, Term
from fedstep.local.trace import Trace


class Statistics(Protocol):
    """What the optimiser remembers of the mean gradients at the server's points."""

    def init(self, x: Vec) -> dict[str, Tensor]: ...
    def update(self, shared: State, g: Vec) -> dict[str, Tensor]: ...


def check(part: str, **rates: float) -> None:
    """Refuse rates outside [0, 1)."""
    for name, rate in rates.items():
        if not 0 <= rate < 1:
            raise InputError(f"{part}({name}={rate}): {name} must lie in [0, 1)")


@dataclass(frozen=True)
class FirstMoment:
    """m <- beta m + (1 - beta) g, kept as u = beta / (1 - beta) m, which is u <- beta (u + g)."""

    beta: float = 0.9

    def __post_init__(self) -> None:
        check("FirstMoment", beta=self.beta)

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"momentum": torch.zeros_like(x)}

    def update(self, shared: State, g: Vec) -> dict[str, Tensor]:
        return {"momentum": self.beta * (shared["momentum"] + g)}


@dataclass(frozen=True)
class BothMoments:
    """m as in FirstMoment and v <- beta2 v + (1 - beta2) g^2, which the direction `Rescaled` divides by.

    v begins at 1: with 0, the first round's steps would be divided by eps alone.
    """

    beta: float = 0.9
    beta2: float = 0.99

    def __post_init__(self) -> None:
        check("BothMoments", beta=self.beta, beta2=self.beta2)

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"momentum": torch.zeros_like(x), "direction.second": torch.ones_like(x)}

    def update(self, shared: State, g: Vec) -> dict[str, Tensor]:
        v = self.beta2 * shared["direction.second"] + (1 - self.beta2) * g * g
        return {"momentum": self.beta * (shared["momentum"] + g), "direction.second": v}


@dataclass(frozen=True)
class Frozen(Correction):
    """Clients use the server's statistics and do not change them (MimeLite).

        client i descends f_i(x) + beta / (1 - beta) <m, x>;  m <- beta m + (1 - beta) g,  g = mean_i grad f_i(x_t)

    A step eta (1 - beta) then goes along eta (beta m + (1 - beta) grad f_i). m begins at 0. The gradient at x_t is sent
    together with the delta.
    """

    statistics: Statistics = FirstMoment()

    probes = True
    silent = True

    def terms(self) -> tuple[Term, ...]:
        return (Linear(plus="momentum"),)

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        return self.statistics.init(x)

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        return {"gradient": torch.zeros_like(x)}

    def probe(self, ctx: Context, g: Vec) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        return {"gradient": g}, {}

    def finish(
        self, ctx: Context, x: Vec, trace: Trace
    ) -> tuple[Vec, dict[str, Tensor], dict[str, Tensor]]:
        return x - ctx.anchor, {}, {"gradient": ctx.memory["gradient"]}

    def fold(self, shared: State, agg: Aggregate, fraction: float) -> tuple[Vec, dict[str, Tensor]]:
        g = agg.mean(agg.message["gradient"])
        return agg.mean(agg.delta), {**shared, **self.statistics.update(shared, g)}


@dataclass(frozen=True)
class VarianceReduced(Correction):
    """The same with gradients that are corrected on every batch B, as SVRG does (Mime).

        client i descends f_B(x) + <g - grad f_B(x_t), x> + beta / (1 - beta) <m, x>

    A local step costs a second gradient, that of the batch at x_t.
    """

    statistics: Statistics = FirstMoment()

    probes = True
    forwards = 1
    backwards = 1

    def terms(self) -> tuple[Term, ...]:
        return (Linear("gradient", "at_anchor"), Linear(plus="momentum"))

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        return {"gradient": torch.zeros_like(x), **self.statistics.init(x)}

    def gather(self, shared: State, agg: Aggregate) -> dict[str, Tensor]:
        return {"gradient": agg.mean(agg.delta)}

    def prepare(self, ctx: Context, batch: Batch) -> dict[str, Tensor]:
        with torch.enable_grad():
            x = ctx.anchor.expand(*batch.share.shape, -1).detach().clone().requires_grad_()
            (g,) = torch.autograd.grad(ctx.forward(x, batch).loss.sum(), x)
        return {"at_anchor": g}

    def fold(self, shared: State, agg: Aggregate, fraction: float) -> tuple[Vec, dict[str, Tensor]]:
        return agg.mean(agg.delta), {**shared, **self.statistics.update(shared, shared["gradient"])}
