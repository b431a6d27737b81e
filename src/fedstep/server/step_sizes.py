"""Server rules whose step size is computed from what the clients send, besides `Extrapolate`."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec, dot, norm_sq
from fedstep.server.rules import ServerRule, ServerStep


@dataclass(frozen=True)
class Diversity(ServerRule):
    """The ratio that extrapolation halves, in full (GraDS; Li, Acharya and Richtarik, 2024).

        eta_g = min(mean |delta_i|^2 / |d|^2, max_step);  x + eta_g * d

    At least 1 (Jensen), and 1 when all deltas are equal or d = 0. Made for deltas that are proximal
    points.
    """

    max_step: float = inf

    def __post_init__(self) -> None:
        _check_cap("Diversity", self.max_step)

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        # no eps, as the paper has none: max_step is the guard where deltas cancel
        ratio = _over(agg.mean(agg.norm_sq), norm_sq(d))
        eta_g = ratio.clamp(max=self.max_step)
        return ServerStep(x + eta_g * d, eta_g)


@dataclass(frozen=True)
class EnvelopePolyak(ServerRule):
    """Polyak's step for the mean of the clients' Moreau envelopes (StoPS; Li et al., 2024).

        eta_g = min(gamma * (mean M_i(x) - bound) / |d|^2, max_step);  x + eta_g * d

    M_i(x) = min_z f_i(z) + |z - x|^2 / (2 gamma) is the clients' message "envelope" (the correction
    `Envelope`), and its gradient is -delta_i / gamma. bound is the mean of inf M_i = inf f_i: 0 for
    losses that can be fitted. eta_g = 1 when d = 0.
    """

    gamma: float = 1.0  # that of the clients' proximal term, 1 / mu
    bound: float = 0.0  # a bound that is too high stops the method early
    max_step: float = inf

    def __post_init__(self) -> None:
        if not self.gamma > 0:
            raise InputError(
                f"EnvelopePolyak(gamma={self.gamma}): gamma must be positive, that of the clients"
            )
        _check_cap("EnvelopePolyak", self.max_step)

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        # the pair is made by hand in a mixture; a KeyError would not name the other half
        if "envelope" not in agg.message:
            raise InputError(
                "EnvelopePolyak: the clients send no envelope; set the correction to Envelope()"
            )
        envelope = agg.mean(agg.message["envelope"])
        # below the bound (a bound that is too high) the rule would go backwards
        gap = (envelope - self.bound).clamp(min=0.0)
        ratio = _over(self.gamma * gap, norm_sq(d))
        eta_g = ratio.clamp(max=self.max_step)
        return ServerStep(x + eta_g * d, eta_g)


@dataclass(frozen=True)
class Hypergradient(ServerRule):
    """Go further while successive directions agree (FedHyper-G; beta > 0: -GM; Wang et al., 2024).

        a <- clip(a + <m, d>, low, high);  m <- beta m + d;  x + d + a * m

    a and m begin at 0, so that the first round is plain averaging. eta_g is 1 + a.
    """

    low: float = -0.8  # -1 would be no step at all
    high: float = 4.0
    beta: float = 0.0  # 0: only the last direction counts

    def __post_init__(self) -> None:
        if not -1 <= self.low <= 0 <= self.high:
            raise InputError(
                f"Hypergradient(low={self.low}, high={self.high}): needs -1 <= low <= 0 <= high"
            )
        if not 0 <= self.beta < 1:
            raise InputError(f"Hypergradient(beta={self.beta}): beta must lie in [0, 1)")

    def init(self, x: Vec) -> NewState:
        return {
            "momentum": torch.zeros_like(x),
            "a": x.new_zeros(()),
        }

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        slope = dot(state["momentum"], d)
        # overflow of both signs says nothing
        slope = torch.where(slope.isnan(), torch.zeros_like(slope), slope)
        a = (state["a"] + slope).clamp(self.low, self.high)
        # after the slope: m is to be the momentum of the rounds before
        m = self.beta * state["momentum"] + d
        return ServerStep(
            x=x + d + a * m,
            eta_g=1 + a,
            state={"momentum": m, "a": a},
        )


@dataclass(frozen=True)
class DistanceOverSum(ServerRule):
    """Distance over gradients on the server, with deltas as gradients (DoG; Ivgi et al., 2023).

        eta_g = max(r, max_s |x_s - x_0|) / sqrt(eps + sum_s |d_s|^2);  x + eta_g * d

    r = start * (1 + |x_0|) as the paper has it, or, with start None, |d_0|: then the first round is
    plain averaging, and a run is spared the long climb from 1e-6. The iterates need averaging: the
    readout `Polynomial`.
    """

    start: float | None = None
    eps: float = 0.0  # DoG's program has 1e-8; deltas need none, since the first d is in the sum

    def __post_init__(self) -> None:
        if self.start is not None and not self.start > 0:
            raise InputError(
                f"DistanceOverSum(start={self.start}): start must be positive (DoG: 1e-6), or None"
            )
        if not self.eps >= 0:
            raise InputError(
                f"DistanceOverSum(eps={self.eps}): eps must be 0 or more; DoG's program has 1e-8"
            )

    def init(self, x: Vec) -> NewState:
        least = x.new_zeros(())
        if self.start is not None:
            least = self.start * (1 + norm_sq(x).sqrt())
        return {
            "origin": x,
            "distance": least,
            "squares": x.new_zeros(()),
        }

    def update(
        self,
        x: Vec,
        d: Vec,
        agg: Aggregate,
        state: State,
    ) -> ServerStep:
        # the largest distance so far: a run that comes back must not shorten its steps
        far = torch.maximum(state["distance"], norm_sq(x - state["origin"]).sqrt())
        # start None, in the first round that moves
        far = torch.where(far > 0, far, norm_sq(d).sqrt())
        # this round's d counts already: the first step is r / |d_0|, not r / 0
        squares = state["squares"] + norm_sq(d)
        eta_g = _over(far, (squares + self.eps).sqrt())
        return ServerStep(
            x=x + eta_g * d,
            eta_g=eta_g,
            state={
                **state,
                "distance": far,
                "squares": squares,
            },
        )


def _over(above: Scalar, below: Scalar) -> Scalar:
    """above / below, and 1 where below is 0: the round does not move then."""
    return torch.where(below > 0, above / below, torch.ones_like(below))


def _check_cap(rule: str, cap: float) -> None:
    # a cap below 1 would cut plain averaging, which these rules never go below
    if not cap >= 1:
        raise InputError(f"{rule}(max_step={cap}): the largest server step must be 1 or more")
