"""What the server does about updates that are finite but out of all proportion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from math import inf
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate, Tallies, Vote
from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec, norm_sq, scale

BINS_AN_OCTAVE = 8  # of the norms' histogram: a median is known to 9 %
OCTAVES = 150  # on either side of 1: more than float32 holds
BINS = 2 * OCTAVES * BINS_AN_OCTAVE


@dataclass(frozen=True)
class Checked:
    """Deltas after the check, which of them were shortened, and what is summed for the server."""

    delta: Vec
    clipped: Tensor
    tallies: Tallies = field(default_factory=dict)  # client axis first, summed without weights
    listed: bool = False  # whether the server needs every delta, not only their sum


@dataclass(frozen=True)
class CheckedMessage:
    """What clients send besides their deltas, after the check."""

    message: State
    tallies: State = field(default_factory=dict)  # summed without weights, as those of deltas


@dataclass(frozen=True)
class GuardedSum:
    """The sum that the server goes on with, and the guard's state for the next round."""

    aggregate: Aggregate
    state: State


class Guard(ABC):
    """Limits what one client can do to the model; its state travels with the broadcast."""

    private: ClassVar[bool] = False  # whether sums must not show a single client

    @abstractmethod
    def init(self, x: Vec) -> NewState:
        """The state before the first round."""

    @abstractmethod
    def check(self, delta: Vec, weight: Tensor, state: State) -> Checked:
        """One client's delta `(d,)` or a block's `(C, d)`, before it is weighted and summed."""

    def check_message(self, message: State, weight: Tensor, state: State) -> CheckedMessage:
        """The same for what is sent besides; mostly it is left as it is."""
        return CheckedMessage(message)

    @abstractmethod
    def settle(self, agg: Aggregate, state: State) -> GuardedSum:
        """The round's sum, mended where it must be, and the state for the next round."""


@dataclass(frozen=True)
class Open(Guard):
    """Every finite update counts as it is: what the papers print."""

    def init(self, x: Vec) -> NewState:
        return {}

    def check(self, delta: Vec, weight: Tensor, state: State) -> Checked:
        nobody = torch.zeros(delta.shape[:-1], dtype=torch.bool, device=delta.device)
        return Checked(delta, nobody)

    def settle(self, agg: Aggregate, state: State) -> GuardedSum:
        return GuardedSum(agg, state)


@dataclass(frozen=True)
class NormLimit(Guard):
    """Shorten deltas that are much longer than those of the round before.

        |delta_i| <= factor * median of last round's norms;   delta_i <- delta_i * limit / |delta_i|

    The median comes from a histogram of the norms' logarithms: counts alone, which form a sum, so
    that no single norm need be known (after Andrew et al., 2021, who follow a quantile by counts).
    It has no setting in units of the problem. A cohort without outliers keeps its bits.

    The first round has no median before it. Its sum is kept twice, as it is and with all deltas at
    length 1; if somebody turns out to be an outlier, every client goes the median's length instead.
    A cohort of fewer than `few` clients is left alone: nobody can tell who is the odd one there.

    Lengths say nothing about directions: a client that goes backwards at the usual length counts.
    Extrapolation answers deltas that cancel with a long step, and one client is enough to cancel.
    So a round in which somebody was shortened is not extrapolated: its spread is set to the least
    that its mean allows, sum w |delta|^2 = |sum w delta|^2 / sum w.
    """

    factor: float = 2.0
    few: int = 5

    def __post_init__(self) -> None:
        if not self.factor > 1:
            raise InputError(f"NormLimit(factor={self.factor}): it must be above 1; try 2")
        if self.few < 3:
            raise InputError(
                f"NormLimit(few={self.few}): of two, none is the outlier; give 3 or more"
            )

    def init(self, x: Vec) -> NewState:
        return {"limit": x.new_tensor(inf)}

    def check(self, delta: Vec, weight: Tensor, state: State) -> Checked:
        norms = norm_sq(delta).sqrt()
        tallies: dict[str, Tensor | Vote] = {"histogram": Vote(_bin(norms), BINS)}
        limit = state["limit"].to(delta)
        if not bool(torch.isfinite(limit)):
            # 0 has no direction; the maximum keeps 0/0 out of the sum
            unit = delta / norms.clamp(min=torch.finfo(delta.dtype).tiny).unsqueeze(-1)
            tallies["unit"] = scale(weight.to(delta.dtype), unit)
            return Checked(delta, torch.zeros_like(norms, dtype=torch.bool), tallies)
        clipped = norms > limit
        if not bool(clipped.any()):
            return Checked(delta, clipped, tallies)
        shorter = scale(limit / norms, delta)
        return Checked(torch.where(clipped.unsqueeze(-1), shorter, delta), clipped, tallies)

    def settle(self, agg: Aggregate, state: State) -> GuardedSum:
        if agg.clients < self.few:
            return GuardedSum(agg, dict(state))
        median = _median(agg.tallies["histogram"]).to(agg.delta)
        # a cohort that stands still must not forbid the next one to move
        if not bool(median > 0):
            return GuardedSum(agg, dict(state))
        limit = self.factor * median
        after = {"limit": limit}
        if bool(torch.isfinite(state["limit"])):
            return GuardedSum(_without_spread(agg), after)
        outliers = int(agg.tallies["histogram"][_bin(limit) + 1 :].sum())
        if outliers == 0:
            return GuardedSum(agg, after)
        mended = replace(
            agg,
            delta=median * agg.tallies["unit"],
            clipped=outliers,
        )
        return GuardedSum(_without_spread(mended), after)


def _without_spread(agg: Aggregate) -> Aggregate:
    """The sum as if all deltas were the same, where somebody was shortened."""
    if agg.clipped == 0:
        return agg
    return replace(agg, norm_sq=norm_sq(agg.delta) / agg.weight)


def _bin(norms: Tensor) -> Tensor:
    """The number of the bin that each norm lies in; 0 holds zero and all that is too small."""
    place = torch.floor(norms.double().log2() * BINS_AN_OCTAVE) + BINS // 2
    # an update that is not finite is rejected later, and its bin does not count: it must be one
    return place.nan_to_num(nan=0.0).clamp(0, BINS - 1).long()


def _median(histogram: Tensor) -> Scalar:
    """The upper end of the bin that holds the lower median; 0 where that bin is the lowest."""
    below = histogram.double().cumsum(0)
    place = int(torch.searchsorted(below, below[-1] / 2))
    if place == 0:
        return histogram.new_zeros(())
    octaves = (place + 1 - BINS // 2) / BINS_AN_OCTAVE
    return histogram.new_tensor(2.0**octaves)
