"""Clients mimic one optimiser on the common function (Mime).

Its statistics are the server's and stay frozen in a round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.slots import check_slots
from fedstep.core.types import Batch, Context
from fedstep.core.vec import NewState, State, Vec
from fedstep.corrections.base import Correction, Finished
from fedstep.local.terms import Linear, Term
from fedstep.local.trace import Trace


class Statistics(ABC):
    """What the optimiser remembers of the mean gradients at the server's points."""

    @abstractmethod
    def init(self, x: Vec) -> NewState:
        """The statistics before the first round."""

    @abstractmethod
    def update(self, shared: State, g: Vec) -> NewState:
        """The statistics after a round whose mean gradient is g."""

    def steer(self, shared: State) -> NewState:
        """What the client's direction begins with."""
        return {}


def _check_rates(part: str, **rates: float) -> None:
    """Refuse rates outside [0, 1)."""
    for name, rate in rates.items():
        if not 0 <= rate < 1:
            raise InputError(f"{part}({name}={rate}): {name} must lie in [0, 1)")


@dataclass(frozen=True)
class FirstMoment(Statistics):
    """m <- beta m + (1 - beta) g, kept as u = beta / (1 - beta) m, which is u <- beta (u + g)."""

    beta: float = 0.9  # the clients' step must be scaled by 1 - beta

    def __post_init__(self) -> None:
        _check_rates("FirstMoment", beta=self.beta)

    def init(self, x: Vec) -> NewState:
        return {"momentum": torch.zeros_like(x)}

    def update(self, shared: State, g: Vec) -> NewState:
        return {"momentum": self.beta * (shared["momentum"] + g)}


@dataclass(frozen=True)
class BothMoments(Statistics):
    """m as in FirstMoment and v <- beta2 v + (1 - beta2) g^2, for the direction `Rescaled`.

    v begins at 1: with 0, the first round's steps would be divided by eps alone.
    """

    beta: float = 0.9
    beta2: float = 0.99

    def __post_init__(self) -> None:
        _check_rates(
            "BothMoments",
            beta=self.beta,
            beta2=self.beta2,
        )

    def init(self, x: Vec) -> NewState:
        return {
            "momentum": torch.zeros_like(x),
            "second": torch.ones_like(x),
        }

    def update(self, shared: State, g: Vec) -> NewState:
        # of the mean gradient, not of the clients': the optimiser mimicked sees the common function
        v = self.beta2 * shared["second"] + (1 - self.beta2) * g * g
        return {
            "momentum": self.beta * (shared["momentum"] + g),
            "second": v,
        }

    def steer(self, shared: State) -> NewState:
        return {"second": shared["second"]}


@dataclass(frozen=True)
class Frozen(Correction):
    """Clients use the server's statistics and do not change them (MimeLite).

        client i descends f_i(x) + beta / (1 - beta) <m, x>
        m <- beta m + (1 - beta) g,  g = mean_i grad f_i(x_t)

    A step eta (1 - beta) then goes along eta (beta m + (1 - beta) grad f_i). m begins at 0. The
    gradient at x_t is sent together with the delta.
    """

    statistics: Statistics = FirstMoment()

    probes = True
    silent = True

    def __post_init__(self) -> None:
        check_slots(self, statistics=Statistics)

    def steer(self, shared: State) -> NewState:
        return self.statistics.steer(shared)

    def terms(self) -> tuple[Term, ...]:
        return (Linear(plus="momentum"),)

    def shared_init(self, x: Vec) -> NewState:
        return self.statistics.init(x)

    def memory_init(self, x: Vec) -> NewState:
        return {"gradient": torch.zeros_like(x)}

    def probe(self, ctx: Context, g: Vec) -> tuple[NewState, NewState]:
        # kept, not sent: it goes up with the delta, so that a round has one exchange
        return {"gradient": g}, {}

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        return Finished(
            x - ctx.anchor,
            message={"gradient": ctx.memory.correction["gradient"]},
        )

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        g = agg.mean(agg.message["gradient"])
        statistics = self.statistics.update(shared, g)
        return agg.mean(agg.delta), {**shared, **statistics}


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

    def __post_init__(self) -> None:
        check_slots(self, statistics=Statistics)

    def steer(self, shared: State) -> NewState:
        return self.statistics.steer(shared)

    def terms(self) -> tuple[Term, ...]:
        return (
            Linear(plus="gradient", minus="at_anchor"),
            Linear(plus="momentum"),
        )

    def shared_init(self, x: Vec) -> NewState:
        return {
            "gradient": torch.zeros_like(x),
            **self.statistics.init(x),
        }

    def gather(self, shared: State, agg: Aggregate) -> NewState:
        return {"gradient": agg.mean(agg.delta)}

    def prepare(self, ctx: Context, batch: Batch) -> NewState:
        with torch.enable_grad():
            # a copy a client: in a block one shared leaf would get the sum of their gradients
            anchors = ctx.anchor.expand(*batch.share.shape, -1)
            x = anchors.detach().clone().requires_grad_()
            loss = ctx.forward(x, batch).loss
            (g,) = torch.autograd.grad(loss.sum(), x)
        return {"at_anchor": g}

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        statistics = self.statistics.update(shared, shared["gradient"])
        return agg.mean(agg.delta), {**shared, **statistics}
