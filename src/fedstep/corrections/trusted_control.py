"""Control variates that count for as much as they foretell."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context
from fedstep.core.vec import NewState, Scalar, State, Vec, dot, norm_sq, scale
from fedstep.corrections.along_path import change_to_mean, inverse
from fedstep.corrections.base import Correction, Finished
from fedstep.local.terms import Linear, Term
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class TrustedControl(Correction):
    """Clients remember their gradients, and the server learns how far to rely on that.

        client i descends f_i(x) + r <c - c_i, x>;  c_i <- the mean of grad f_i along its path
        c: the mean of the c_i, of the clients that have one
        r = sum <new c_i - c, c_i - c> / sum |c_i - c|^2, within [0, 1]

    The sums are over the clients of a round, and over rounds with weights that fade by `memory`. r
    is the least-squares coefficient of what clients find on what they remember: 1 where a client
    meets again the gradient it left with, 0 where that tells nothing. A client that comes for the
    first time has nothing to remember and descends f_i. A control is a mean of gradients and not of
    steps, so any direction and any step serve. Three numbers a client are sent besides a vector.
    """

    memory: float = 0.9

    # clients need c and r
    withheld = frozenset({"known", "foretold", "recalled"})
    unsent = frozenset({"gradients"})

    def __post_init__(self) -> None:
        if not 0 <= self.memory < 1:
            raise InputError(f"TrustedControl(memory={self.memory}): memory must lie in [0, 1)")

    def terms(self) -> tuple[Term, ...]:
        return (Linear(plus="control", minus="control", times="reliance"),)

    def shared_init(self, x: Vec) -> NewState:
        return {
            "control": torch.zeros_like(x),
            "trust": x.new_zeros(()),
            "known": x.new_zeros(()),  # how much of all clients, by weight, has a control
            "foretold": x.new_zeros(()),
            "recalled": x.new_zeros(()),
        }

    def memory_init(self, x: Vec) -> NewState:
        return {
            "control": torch.zeros_like(x),
            "met": x.new_zeros(()),
        }

    def prepare(self, ctx: Context, batch: Batch) -> NewState:
        return {"reliance": _reliance(ctx)}

    def tally(self, x: Vec) -> NewState:
        return {"gradients": torch.zeros_like(x)}

    def count_gradient(self, g: Vec, ctx: Context) -> NewState:
        return {"gradients": g}

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        memory = ctx.memory.correction
        met = memory["met"]
        apart = memory["control"] - ctx.shared.correction["control"]
        # every gradient had the tilt in it, the same at all steps: a control has not
        gradients = memory["gradients"] + scale(trace.steps * _reliance(ctx), apart)
        change = change_to_mean(memory["control"], gradients, trace)
        took = (trace.steps > 0).to(met.dtype)
        # who comes for the first time, or takes no step, has nothing to compare
        compared = took * met
        return Finished(
            x - ctx.anchor,
            memory={
                "control": memory["control"] + change,
                "met": torch.maximum(met, took),
            },
            message={
                "control": change,
                "new": took * (1 - met),
                "foretold": compared * dot(apart + change, apart),
                "recalled": compared * norm_sq(apart),
            },
        )

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        # sums over all clients, of which those that were away have not changed theirs
        total = shared["known"] * shared["control"] + fraction * agg.mean(agg.message["control"])
        known = shared["known"] + fraction * agg.mean(agg.message["new"])
        foretold = self.memory * shared["foretold"] + agg.mean(agg.message["foretold"])
        recalled = self.memory * shared["recalled"] + agg.mean(agg.message["recalled"])
        trust = inverse(recalled) * foretold
        new = {
            "control": inverse(known) * total,
            "trust": trust.clamp(0, 1),
            "known": known,
            "foretold": foretold,
            "recalled": recalled,
        }
        return agg.mean(agg.delta), new


def _reliance(ctx: Context) -> Scalar:
    """r, and 0 for a client that has no control yet."""
    return ctx.shared.correction["trust"] * ctx.memory.correction["met"]
