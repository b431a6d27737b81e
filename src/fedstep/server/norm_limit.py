"""The usual guard: nobody counts for much more than is usual in the cohort."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate, Vote
from fedstep.core.errors import InputError
from fedstep.core.message_kinds import Bounded, Logarithm, MessageKind
from fedstep.core.nested import join, part
from fedstep.core.vec import NewState, State, Vec, norm_sq
from fedstep.server.guards import Checked, CheckedMessage, Guard, GuardedSum
from fedstep.server.rulers import LengthRuler, LogRuler, SettledSum

PROBE = "probe"  # where lies what is known of gradients: a limit for deltas says nothing about them


@dataclass(frozen=True)
class NormLimit(Guard):
    """Shorten what is much longer than it was usual in the round before.

        limit = factor * median of last round's norms
        |delta_i| > limit:  delta_i <- delta_i (limit / |delta_i|)^2

    Just beyond the limit a delta is brought back to it; the longer it is, the less is left. The
    same for what clients send besides (a control variate, a gradient), each value with a median of
    its own. Logarithms of steps may lie a factor of ten from the median, on either side.

    The median comes from a histogram of the norms' logarithms: counts alone, which form a sum, so
    that no single norm need be known (after Andrew et al., 2021, who follow a quantile by counts).
    It has no setting in units of the problem. A cohort without outliers keeps its bits, unless a
    method that extrapolates would go beyond the bound of the spread.

    The first round has no median before it. Its sums are kept twice, as they are and with all
    vectors at length 1; if somebody turns out to be an outlier, every client goes the median's
    length instead. A cohort of fewer than `few` clients is left alone: nobody can tell who is the
    odd one there.

    Lengths say nothing about directions: a client that goes backwards at the usual length counts.
    Extrapolation answers deltas that cancel with a long step, and one client is enough to cancel.
    So its spread, the mean of |delta|^2 by |mean delta|^2, has a bound: `most_spread` in a round in
    which a delta was shortened, and (C / 2)^2 in any other of C clients.
    """

    factor: float = 2.0
    few: int = 5
    most_spread: float = 2.0

    def __post_init__(self) -> None:
        if not self.factor > 1:
            raise InputError(f"NormLimit(factor={self.factor}): it must be above 1; try 2")
        if self.few < 3:
            raise InputError(
                f"NormLimit(few={self.few}): of two, none is the outlier; give 3 or more"
            )
        if not self.most_spread >= 1:
            raise InputError(
                f"NormLimit(most_spread={self.most_spread}): it must be 1 or more; try 2"
            )

    def init(self, x: Vec) -> NewState:
        return {"limit": x.new_tensor(inf)}

    def check(self, delta: Vec, weight: Tensor, state: State) -> Checked:
        measured = self._length.check(delta, weight, state)
        tallies = {
            **measured.tallies,
            # whose message alone is shortened does nothing to the spread
            "shortened": measured.clipped,
        }
        return Checked(measured.value, measured.clipped, tallies)

    def check_message(
        self,
        message: State,
        kinds: Mapping[str, MessageKind],
        weight: Tensor,
        state: State,
    ) -> CheckedMessage:
        values = dict(message)
        tallies: dict[str, Tensor | Vote] = {}
        clipped = torch.zeros_like(weight, dtype=torch.bool)
        for name, value in message.items():
            kind = kinds.get(name, MessageKind())
            if isinstance(kind, Bounded):
                continue
            known = part(state, _place(name))
            if isinstance(kind, Logarithm):
                claimed = message.get(kind.count, torch.ones_like(value))
                measured = self._logarithm.check(value, claimed * weight.to(value), known)
            else:
                measured = self._length.check(value, weight, known)
            values[name] = measured.value
            clipped = clipped | measured.clipped
            for key, tally in measured.tallies.items():
                tallies[f"{_place(name)}.{key}"] = tally
        return CheckedMessage(values, tallies, clipped)

    def check_gradient(self, gradient: Vec, weight: Tensor, state: State) -> Checked:
        return self.check(gradient, weight, part(state, PROBE))

    def settle_gradient(self, agg: Aggregate, state: State) -> GuardedSum:
        settled = self.settle(agg, part(state, PROBE))
        known = join(**{PROBE: settled.state})
        return GuardedSum(settled.aggregate, {**state, **known})

    def settle(self, agg: Aggregate, state: State) -> GuardedSum:
        if agg.clients < self.few:
            return GuardedSum(agg, state)
        delta = self._length.settle(agg.delta, agg.tallies, state)
        after = {**state, **delta.state}
        outliers = delta.outliers
        message = dict(agg.message)
        for name in message:
            value = self._settled_value(name, agg, state)
            message[name] = value.total
            outliers = max(outliers, value.outliers)
            for key, known in value.state.items():
                after[f"{_place(name)}.{key}"] = known
        settled = replace(
            agg,
            delta=delta.total,
            message=message,
            # who they are is not known before the sum: at least so many
            clipped=max(agg.clipped, outliers),
        )
        if delta.outliers > 0:
            # all have the median's length now
            squares = agg.weight * (delta.state["limit"] / self.factor).square()
            settled = replace(settled, norm_sq=squares)
        somebody = delta.outliers > 0 or bool(agg.tallies["shortened"] > 0)
        return GuardedSum(self._with_bounded_spread(settled, somebody), after)

    def _with_bounded_spread(self, agg: Aggregate, somebody_was_shortened: bool) -> Aggregate:
        # a mean shorter than 2 / C of its deltas may be the work of one that goes the other way
        most = (agg.clients / 2) ** 2
        if somebody_was_shortened:
            most = min(most, self.most_spread)
        bound = most * norm_sq(agg.delta) / agg.weight
        return replace(agg, norm_sq=torch.minimum(agg.norm_sq, bound))

    def _settled_value(self, name: str, agg: Aggregate, state: State) -> SettledSum:
        """One value of the message; of those that their parts bound there is nothing to settle."""
        tallies = part(agg.tallies, _place(name))
        known = part(state, _place(name))
        if "claimed" in tallies:
            return self._logarithm.settle(agg.message[name], tallies, known)
        if "histogram" in tallies:
            return self._length.settle(agg.message[name], tallies, known)
        return SettledSum(agg.message[name], known)

    @cached_property
    def _length(self) -> LengthRuler:
        return LengthRuler(self.few, self.factor)

    @cached_property
    def _logarithm(self) -> LogRuler:
        return LogRuler(self.few)


def _place(name: str) -> str:
    """Where tallies and state of a value of the message lie, beside those of the delta."""
    return f"message.{name}"
