"""User-level differential privacy: what one client can change in a round is drowned in noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import exp, sqrt
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.message_kinds import MessageKind
from fedstep.core.seeds import generator
from fedstep.core.vec import NewState, State, Vec, norm_sq, scale
from fedstep.server.guards import Checked, CheckedMessage, Guard, GuardedSum

DELTA = "delta"  # the update among the parts of a reply; a message's parts bear its names
SPREAD = "spread"  # the sum of the squared lengths, which extrapolation reads
ASIDE = 0.1  # of the budget of a round: for what only steers, limits and spread


@dataclass(frozen=True)
class UserPrivacy(Guard):
    """Shorten every update, sum, add Gaussian noise to the sum (DP-FedAvg, McMahan et al., 2018).

        delta_i <- delta_i min(1, C / |delta_i|);  S = sum delta_i + N(0, (z_S C)^2)
        C <- C exp(-rate (b - quantile));  b = share of |delta_i| <= C, with noise of its own

    The limit C follows a quantile of the lengths (Andrew et al., 2021), from counts alone. Whatever
    else a method sums is treated the same: every value of a message has a limit of its own, and so
    has the sum of squares that extrapolation reads. All sums of a round together are one Gaussian
    mechanism of the multiplier `noise`: with shares s_j of the budget, sum s_j = 1, the sum j has
    the deviation noise * sensitivity_j / sqrt(s_j). `fedstep.run.privacy` says which epsilon it is.

    A client whose update cannot be used counts as 0 and is divided by like any other. Needs equal
    weights, and a method that does not probe. The server sees single updates: it is trusted.

    seed: of the noise, keyed by it and the round. Whoever knows it can take the noise away: a
    simulation may have any, a deployment needs a secret one. The numbers are those of torch's
    generator in floating point: no defence against attacks on the last bits.
    """

    noise: float = 1.0
    quantile: float = 0.5
    rate: float = 0.5
    start: float = 1.0  # the first limit; it is forgotten within some rounds
    seed: int = field(default=0, repr=False)  # in no file and no page
    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.noise > 0:
            raise InputError(f"UserPrivacy(noise={self.noise}): it must be positive; try 1")
        if not 0 < self.quantile < 1:
            raise InputError(f"UserPrivacy(quantile={self.quantile}): it must lie in (0, 1)")
        if not self.rate > 0:
            raise InputError(f"UserPrivacy(rate={self.rate}): it must be positive; try 0.5")
        if not self.start > 0:
            raise InputError(f"UserPrivacy(start={self.start}): it must be positive; try 1")

    def init(self, x: Vec) -> NewState:
        return {_limit(DELTA): x.new_tensor(self.start), "round": x.new_zeros(())}

    def check(self, delta: Vec, weight: Tensor, state: State) -> Checked:
        if bool((weight > 1).any()):
            raise InputError(
                "UserPrivacy: a client that weighs more than 1 would be seen through the noise; "
                'give weighting="equal"'
            )
        limit = state[_limit(DELTA)].to(delta)
        part = _shortened(delta, limit)
        # centred, as all counts here: one client then changes a sum by a half at most
        spread = norm_sq(part.value) / limit.square() - 0.5
        tallies = {_within(DELTA): part.within, SPREAD: spread}
        return Checked(part.value, part.within < 0, tallies)

    def check_message(
        self,
        message: State,
        kinds: Mapping[str, MessageKind],
        weight: Tensor,
        state: State,
    ) -> CheckedMessage:
        # whatever a value means, one client changes its sum by no more than its length
        values = {}
        tallies = {}
        for name, value in message.items():
            # all axes behind the clients' as one
            flat = value.reshape(*weight.shape, -1)
            part = _shortened(flat, self._limit(name, state).to(flat))
            values[name] = part.value.reshape(value.shape)
            tallies[_within(name)] = part.within
        return CheckedMessage(values, tallies)

    def settle(self, agg: Aggregate, state: State) -> GuardedSum:
        parts = {DELTA: agg.delta, **agg.message}
        asked = agg.clients + agg.rejected
        budget = _Budget(self.noise, parts=len(parts), counts=len(parts) + 1)
        round = int(state["round"])
        sums: NewState = {}
        after: NewState = {"round": state["round"] + 1}
        for name, value in parts.items():
            limit = self._limit(name, state)
            sums[name] = self._noised(value, budget.of_part * float(limit), round, name)
            count = self._noised(agg.tallies[_within(name)], budget.of_count, round, _within(name))
            # what was made of noised sums may be mended freely: it reveals nothing more
            within = float((count / asked + 0.5).clamp(0.0, 1.0))
            after[_limit(name)] = limit * exp(-self.rate * (within - self.quantile))
        spread = self._noised(agg.tallies[SPREAD], budget.of_count, round, SPREAD)
        square = state[_limit(DELTA)].to(spread).square()
        noised = replace(
            agg,
            # those whose update could not be used count as 0: their number stays hidden
            weight=torch.full_like(agg.weight, asked),
            delta=sums.pop(DELTA),
            norm_sq=((spread + asked / 2) * square).clamp(min=0.0),
            message=sums,
            clients=asked,
            rejected=0,
            clipped=0,
        )
        return GuardedSum(noised, after)

    def _limit(self, name: str, state: State) -> Tensor:
        # what a message consists of is known when the first one has come
        return state.get(_limit(name), torch.tensor(self.start))

    def _noised(self, value: Tensor, deviation: float, round: int, name: str) -> Tensor:
        drawn = torch.randn(value.shape, generator=generator(self.seed, round, "privacy", name))
        return value + deviation * drawn.to(value)


@dataclass(frozen=True)
class _Budget:
    """Deviations of the noise, so that all sums of a round together have the multiplier `noise`.

    A part changes by its limit at most, a count by a half.
    """

    noise: float
    parts: int
    counts: int

    @property
    def of_part(self) -> float:
        """In units of the part's limit."""
        return self.noise * sqrt(self.parts / (1 - ASIDE))

    @property
    def of_count(self) -> float:
        return 0.5 * self.noise * sqrt(self.counts / ASIDE)


@dataclass(frozen=True)
class _Shortened:
    """Values of clients, none longer than the limit."""

    value: Vec
    within: Tensor  # 1/2 of those that were not shortened, -1/2 of the others


def _shortened(value: Vec, limit: Tensor) -> _Shortened:
    norms = norm_sq(value).sqrt()
    longer = norms > limit
    factor = torch.where(longer, limit / norms, torch.ones_like(norms))
    within = torch.where(longer, -0.5, 0.5).to(value)
    return _Shortened(scale(factor, value), within)


def _limit(part: str) -> str:
    return f"limit.{part}"


def _within(part: str) -> str:
    return f"within.{part}"
