"""Control variates under a momentum, for steps of a fixed length (PAdaMFed, ParFreFL)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context
from fedstep.core.vec import NewState, State, Vec, scale
from fedstep.corrections.along_path import change_to_mean, inverse
from fedstep.corrections.base import Correction, Finished
from fedstep.local.terms import Linear, Term
from fedstep.local.trace import Trace


def _check_beta(part: str, beta: float) -> None:
    if not 0 < beta <= 1:
        raise InputError(f"{part}(beta={beta}): beta must lie in (0, 1]; 1 has no memory")


def _per_length(ctx: Context, x: Vec, trace: Trace) -> Vec:
    """A client's way per unit of the steps it took."""
    return scale(inverse(trace.length), x - ctx.anchor)


@dataclass(frozen=True)
class ControlledMomentum(Correction):
    """Clients know the momentum of all, and what of it is their own (PAdaMFed; SCAFFOLD-M).

        client i descends f_i(x) + <c + (1 - beta) / beta g - c_i, x>
        c_i <- mean of grad f_i along its path;  c <- c + |S|/N mean_i(change of c_i)
        g <- beta (c + mean_i(change of c_i)) + (1 - beta) g, with c before its change
        direction = mean_i(delta_i / length_i)

    All begin at 0, and g after the first round is that round's mean gradient. length_i is the sum
    of the client's steps. The gradient of the client's function is 1 / beta times
    beta (grad f_i - c_i + c) + (1 - beta) g: the same way for the direction `Unit`.
    """

    beta: float = 0.1  # the part of new gradients; 1: control variates alone

    withheld = frozenset({"control", "momentum", "known"})
    unsent = frozenset({"gradients"})

    def __post_init__(self) -> None:
        _check_beta("ControlledMomentum", self.beta)

    def terms(self) -> tuple[Term, ...]:
        return (Linear(plus="tilt", minus="control"),)

    def shared_init(self, x: Vec) -> NewState:
        return {
            "control": torch.zeros_like(x),
            "momentum": torch.zeros_like(x),
            "tilt": torch.zeros_like(x),
            "known": x.new_zeros(()),
        }

    def memory_init(self, x: Vec) -> NewState:
        return {"control": torch.zeros_like(x)}

    def tally(self, x: Vec) -> NewState:
        return {"gradients": torch.zeros_like(x)}

    def count_gradient(self, g: Vec, ctx: Context) -> NewState:
        # without the tilt: a control is a mean of the client's own gradients
        tilt = ctx.shared.correction["tilt"] - ctx.memory.correction["control"]
        return {"gradients": g - tilt}

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        memory = ctx.memory.correction
        change = change_to_mean(memory["control"], memory["gradients"], trace)
        return Finished(
            _per_length(ctx, x, trace),
            memory={"control": memory["control"] + change},
            message={"change": change},
        )

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        change = agg.mean(agg.message["change"])
        control = shared["control"] + fraction * change
        # there is nothing to mix with before the first round
        beta = 1 + shared["known"] * (self.beta - 1)
        momentum = beta * (shared["control"] + change) + (1 - beta) * shared["momentum"]
        new = {
            "control": control,
            "momentum": momentum,
            "tilt": control + (1 - self.beta) / self.beta * momentum,
            "known": torch.ones_like(shared["known"]),
        }
        return agg.mean(agg.delta), new


@dataclass(frozen=True)
class ReducedMomentum(Correction):
    """The same with less noise: each batch is compared at the model of the round before.

        client i descends f_B(x) + <beta (c - c_i) + (1 - beta) (g - grad f_B(x_{t-1})), x>
        c_i and c as in `ControlledMomentum`;  direction = mean_i(delta_i / length_i)
        g <- mean over clients and steps of the gradients of what they descend (STORM)

    Before the first round there is no x_{t-1}, and clients descend f_B. A step costs a second
    gradient, that of the batch at x_{t-1} (PAdaMFed-VR).
    """

    beta: float = 0.1  # the part of new gradients; 1: control variates alone

    withheld = frozenset({"control", "momentum"})
    unsent = frozenset({"gradients", "way"})
    forwards = 1
    backwards = 1

    def __post_init__(self) -> None:
        _check_beta("ReducedMomentum", self.beta)

    def terms(self) -> tuple[Term, ...]:
        return (Linear(plus="tilt", minus="past"),)

    def shared_init(self, x: Vec) -> NewState:
        return {
            "control": torch.zeros_like(x),
            "momentum": torch.zeros_like(x),
            "tilt": torch.zeros_like(x),
            "before": torch.zeros_like(x),
            "known": x.new_zeros(()),
        }

    def memory_init(self, x: Vec) -> NewState:
        return {"control": torch.zeros_like(x)}

    def prepare(self, ctx: Context, batch: Batch) -> NewState:
        shared = ctx.shared.correction
        with torch.enable_grad():
            # a copy a client: in a block one shared leaf would get the sum of their gradients
            before = shared["before"].expand(*batch.share.shape, -1)
            x = before.detach().clone().requires_grad_()
            loss = ctx.forward(x, batch).loss
            (g,) = torch.autograd.grad(loss.sum(), x)
        # where, not a product: a model that no round has begun with may have no finite gradient
        g = torch.where(shared["known"] > 0, g, 0.0)
        control = ctx.memory.correction["control"]
        return {"past": self.beta * control + (1 - self.beta) * g}

    def tally(self, x: Vec) -> NewState:
        return {
            "gradients": torch.zeros_like(x),
            "way": torch.zeros_like(x),
        }

    def count_gradient(self, g: Vec, ctx: Context) -> NewState:
        tilt = ctx.shared.correction["tilt"] - ctx.memory.correction["past"]
        return {
            "gradients": g - tilt,
            "way": g,
        }

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        memory = ctx.memory.correction
        change = change_to_mean(memory["control"], memory["gradients"], trace)
        message = {
            "change": change,
            "momentum": scale(inverse(trace.steps), memory["way"]),
            # who took no step says nothing about the momentum
            "took": (trace.steps > 0).to(x.dtype),
        }
        return Finished(
            _per_length(ctx, x, trace),
            memory={"control": memory["control"] + change},
            message=message,
        )

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        direction = agg.mean(agg.delta)
        took = agg.message["took"]
        if not bool(took > 0):
            return direction, dict(shared)
        control = shared["control"] + fraction * agg.mean(agg.message["change"])
        momentum = agg.message["momentum"] / took
        new = {
            "control": control,
            "momentum": momentum,
            "tilt": self.beta * control + (1 - self.beta) * momentum,
            "before": shared["before"],
            "known": torch.ones_like(shared["known"]),
        }
        return direction, new

    def moved(self, shared: State, old: Vec, new: Vec) -> NewState:
        return {**shared, "before": old}


@dataclass(frozen=True)
class OwnMomentum(Correction):
    """Clients keep a momentum of their own and send how it changed, nothing else (ParFreFL).

        client i descends f_i(x) + (1 - beta) / beta <m_i, x>
        m_i <- (1 - beta) m_i + beta mean of grad f_i along its path;  it sends the change of m_i
        direction = -(c + mean_i(change of m_i));  c <- c + |S|/N mean_i(change of m_i)

    A client's first m_i is its mean gradient; c begins at 0 and is the server's alone. The change
    travels in the place of the delta: with `ErrorFeedback` as codec what is left out is sent with
    the next change (ComParFreFL). The direction is a gradient, not a displacement: use a server
    that goes a length of its own along it, `Length`.
    """

    beta: float = 0.1  # the part of new gradients; 1: no memory

    withheld = frozenset({"control"})
    unsent = frozenset({"gradients"})

    def __post_init__(self) -> None:
        _check_beta("OwnMomentum", self.beta)

    def terms(self) -> tuple[Term, ...]:
        return (Linear(minus="back"),)

    def shared_init(self, x: Vec) -> NewState:
        return {"control": torch.zeros_like(x)}

    def memory_init(self, x: Vec) -> NewState:
        return {
            "momentum": torch.zeros_like(x),
            "met": x.new_zeros(()),
        }

    def prepare(self, ctx: Context, batch: Batch) -> NewState:
        momentum = ctx.memory.correction["momentum"]
        return {"back": -(1 - self.beta) / self.beta * momentum}

    def tally(self, x: Vec) -> NewState:
        return {"gradients": torch.zeros_like(x)}

    def count_gradient(self, g: Vec, ctx: Context) -> NewState:
        return {"gradients": g + ctx.memory.correction["back"]}

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        memory = ctx.memory.correction
        toward_new = change_to_mean(memory["momentum"], memory["gradients"], trace)
        # a first gradient has nothing to be mixed with
        beta = 1 + memory["met"] * (self.beta - 1)
        change = scale(beta, toward_new)
        met = torch.maximum(memory["met"], (trace.steps > 0).to(memory["met"].dtype))
        return Finished(
            # servers add what they are sent, and a gradient is to be gone against
            -change,
            memory={"momentum": memory["momentum"] + change, "met": met},
        )

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        change = -agg.mean(agg.delta)
        direction = -(shared["control"] + change)
        return direction, {"control": shared["control"] + fraction * change}
