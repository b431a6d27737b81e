"""Clients mimic one optimiser on the common function: its momentum is the server's and stays frozen in a round (Mime)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context
from fedstep.core.vec import State, Vec
from fedstep.corrections.base import Correction
from fedstep.local.terms import Linear, Term
from fedstep.local.trace import Trace


def later(beta: float, momentum: Vec, g: Vec) -> Vec:
    """u <- beta (u + g), which is beta / (1 - beta) m for m <- beta m + (1 - beta) g."""
    return beta * (momentum + g)


def _check(name: str, beta: float) -> None:
    if not 0 <= beta < 1:
        raise InputError(f"{name}(beta={beta}): beta must lie in [0, 1)")


@dataclass(frozen=True)
class FrozenMomentum(Correction):
    """Clients lean on the server's momentum m and do not change it (MimeLite).

        client i descends f_i(x) + beta / (1 - beta) <m, x>;  m <- beta m + (1 - beta) g,  g = mean_i grad f_i(x_t)

    A step eta (1 - beta) then goes along eta (beta m + (1 - beta) grad f_i). m begins at 0. The gradient at x_t is sent
    together with the delta.
    """

    beta: float = 0.9

    probes = True
    silent = True

    def __post_init__(self) -> None:
        _check("FrozenMomentum", self.beta)

    def terms(self) -> tuple[Term, ...]:
        return (Linear(plus="momentum"),)

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        return {"momentum": torch.zeros_like(x)}

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        return {"gradient": torch.zeros_like(x)}

    def probe(self, ctx: Context, g: Vec) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        return {"gradient": g}, {}

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> tuple[Vec, dict[str, Tensor], dict[str, Tensor]]:
        return x - ctx.anchor, {}, {"gradient": ctx.memory["gradient"]}

    def fold(self, shared: State, agg: Aggregate, fraction: float) -> tuple[Vec, dict[str, Tensor]]:
        g = agg.mean(agg.message["gradient"])
        return agg.mean(agg.delta), {**shared, "momentum": later(self.beta, shared["momentum"], g)}


@dataclass(frozen=True)
class VarianceReduced(Correction):
    """The same with gradients that are corrected on every batch B, as SVRG does (Mime).

        client i descends f_B(x) + <g - grad f_B(x_t), x> + beta / (1 - beta) <m, x>

    A local step costs a second gradient, that of the batch at x_t.
    """

    beta: float = 0.9

    probes = True
    forwards = 1
    backwards = 1

    def __post_init__(self) -> None:
        _check("VarianceReduced", self.beta)

    def terms(self) -> tuple[Term, ...]:
        return (Linear("gradient", "at_anchor"), Linear(plus="momentum"))

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        return {"momentum": torch.zeros_like(x), "gradient": torch.zeros_like(x)}

    def gather(self, shared: State, agg: Aggregate) -> dict[str, Tensor]:
        return {"gradient": agg.mean(agg.delta)}

    def prepare(self, ctx: Context, batch: Batch) -> dict[str, Tensor]:
        with torch.enable_grad():
            x = ctx.anchor.expand(*batch.share.shape, -1).detach().clone().requires_grad_()
            (g,) = torch.autograd.grad(ctx.forward(x, batch).loss.sum(), x)
        return {"at_anchor": g}

    def fold(self, shared: State, agg: Aggregate, fraction: float) -> tuple[Vec, dict[str, Tensor]]:
        momentum = later(self.beta, shared["momentum"], shared["gradient"])
        return agg.mean(agg.delta), {**shared, "momentum": momentum}
