"""How a guard measures what a client sends, and what is left of too much."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import torch
from torch import Tensor

from fedstep.core.aggregate import Tallies, Vote
from fedstep.core.vec import State, norm_sq, scale
from fedstep.server.lengths import bin_of_length, bin_of_log, log_median, speakers, vote

POWER = 2  # beyond the limit a vector keeps (limit / length)^POWER of itself
CLAIM = 10.0  # how far from the usual a number may lie that is known by its logarithm


@dataclass(frozen=True)
class CheckedValue:
    """One value of all clients of a block, brought back where it was too much."""

    value: Tensor
    clipped: Tensor
    tallies: Tallies  # what is summed so that the server can settle


@dataclass(frozen=True)
class SettledSum:
    """The sum over the cohort that the server goes on with, and what it knows afterwards."""

    total: Tensor
    state: State
    outliers: int = 0  # that were found only now: the sum was mended


@dataclass(frozen=True)
class LengthRuler:
    """By the Euclidean length.

        limit = factor * median of last round's norms
        |v| > limit:  v <- v (limit / |v|)^2

    Before there is a limit the sum is kept twice, as it is and with all vectors at length 1; if
    somebody is an outlier, everybody goes the median's length instead.

    few: of fewer clients nobody can tell who is the odd one.
    """

    few: int
    factor: float

    def check(self, value: Tensor, weight: Tensor, state: State) -> CheckedValue:
        """The values of clients, weight of shape `()` or `(C,)`, before they are summed."""
        # all axes behind the clients' as one: a scalar is a vector too
        vector = value.reshape(*weight.shape, -1)
        norms = norm_sq(vector).sqrt()
        tallies: dict[str, Tensor | Vote] = {"histogram": vote(bin_of_length(norms))}
        limit = state.get("limit")
        if limit is None or not bool(torch.isfinite(limit)):
            # 0 has no direction; the maximum keeps 0/0 out of the sum
            unit = vector / norms.clamp(min=torch.finfo(vector.dtype).tiny).unsqueeze(-1)
            unit = scale(weight.to(vector.dtype), unit)
            tallies["unit"] = unit.reshape(value.shape)
            return CheckedValue(value, torch.zeros_like(norms, dtype=torch.bool), tallies)
        limit = limit.to(vector)
        clipped = norms > limit
        # honest cohorts keep their bits, and mostly the work is saved too
        if not bool(clipped.any()):
            return CheckedValue(value, clipped, tallies)
        shorter = scale((limit / norms) ** POWER, vector)
        vector = torch.where(clipped.unsqueeze(-1), shorter, vector)
        return CheckedValue(vector.reshape(value.shape), clipped, tallies)

    def settle(self, total: Tensor, tallies: State, state: State) -> SettledSum:
        """The weighted sum over the cohort, mended where it must be, and what is usual now."""
        histogram = tallies["histogram"]
        usual = log_median(histogram)
        # a cohort that stands still must not forbid the next one to move
        if usual is None or speakers(histogram) < self.few:
            return SettledSum(total, state)
        limit = total.new_tensor(self.factor * exp(usual))
        unit = tallies.get("unit")
        if unit is None:
            return SettledSum(total, {"limit": limit})
        outliers = int(histogram[bin_of_length(limit) + 1 :].sum())
        if outliers > 0:
            total = exp(usual) * unit
        return SettledSum(total, {"limit": limit}, outliers)


@dataclass(frozen=True)
class LogRuler:
    """By the distance of a logarithm from the median of the round before.

        l <- clip(l, m - log 10, m + log 10);  m: the logarithm of the median

    Far too small does as much harm as far too large: a geometric mean follows both. Before there is
    a median, and if somebody is an outlier, all are taken to have claimed it.
    """

    few: int

    def check(self, value: Tensor, weight: Tensor, state: State) -> CheckedValue:
        """The same for logarithms; weight is 0 for a client that makes no claim."""
        # who weighs nothing here makes no claim, and its logarithm is a placeholder
        claims = weight > 0
        # the lowest bin is theirs: a claim that is as small as that is still one
        bins = torch.where(claims, bin_of_log(value).clamp(min=1), 0)
        tallies: dict[str, Tensor | Vote] = {"histogram": vote(bins), "claimed": weight}
        usual = state.get("usual")
        if usual is None:
            return CheckedValue(value, torch.zeros_like(claims), tallies)
        low = usual.to(value) - log(CLAIM)
        high = usual.to(value) + log(CLAIM)
        # what is not finite stays so: the client is rejected, as it would be without a guard
        clipped = claims & torch.isfinite(value) & ((value < low) | (value > high))
        return CheckedValue(torch.where(clipped, value.clamp(low, high), value), clipped, tallies)

    def settle(self, total: Tensor, tallies: State, state: State) -> SettledSum:
        """The same for the sum of logarithms."""
        histogram = tallies["histogram"]
        usual = log_median(histogram)
        if usual is None or speakers(histogram) < self.few:
            return SettledSum(total, state)
        median = total.new_tensor(usual)
        after = {"usual": median}
        if "usual" in state:
            return SettledSum(total, after)
        lowest = bin_of_log(median - log(CLAIM))
        highest = bin_of_log(median + log(CLAIM))
        outliers = speakers(histogram) - int(histogram[lowest : highest + 1].sum())
        if outliers > 0:
            total = usual * tallies["claimed"].to(total)
        return SettledSum(total, after, outliers)
