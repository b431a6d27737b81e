"""What the parts of a search are given: its start, a trial, the trials' bracket, and its end."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.vec import Scalar


@dataclass(frozen=True)
class SearchStart:
    """Where a client stands before its first trial."""

    f: Scalar  # phi(x)
    slope: Scalar  # <g, d>
    last: Scalar  # the last accepted step
    start: Scalar  # the value a round begins with
    share: Scalar  # batch size / the client's number of samples
    shrink: float  # factor of the search after a trial that is too long


@dataclass(frozen=True)
class ReferenceLine:
    """The line a trial must stay below, eta -> value + c eta slope."""

    value: Scalar
    slope: Scalar


@dataclass(frozen=True)
class Trial:
    """phi(x + eta d) and the lines it is judged by.

    Decrease is asked for against (reference, decline), which the reference slot may relax;
    whether a step is too short is judged at x itself, by (f, slope). noise is the rounding error
    of a value.
    """

    eta: Scalar
    value: Scalar
    f: Scalar
    slope: Scalar
    reference: Scalar
    decline: Scalar
    noise: Scalar

    @staticmethod
    def first(
        begin: SearchStart,
        line: ReferenceLine,
        eta: Scalar,
        slack: float,
    ) -> Trial:
        """The first trial before its value is known; f stands in for it.

        slack is how many units in the last place of a value are noise.
        """
        rounding = torch.finfo(begin.f.dtype).eps
        return Trial(
            eta=eta,
            value=begin.f,
            f=begin.f,
            slope=begin.slope,
            reference=line.value,
            decline=line.slope,
            noise=slack * rounding * line.value.abs(),
        )

    def below(self, c: float) -> Tensor:
        """value <= reference + c eta decline; False for a NaN value.

        Where the decrease asked for is lost in the rounding of the two values, f may rise by the
        noise.
        """
        wanted = c * self.eta * self.decline
        return self.value <= self.reference + wanted + self._forgiven(wanted)

    def above(self, c: float) -> Tensor:
        """value >= f + c eta slope, with the same forgiveness downwards."""
        wanted = c * self.eta * self.slope
        return self.value >= self.f + wanted - self._forgiven(wanted)

    @property
    def quotient(self) -> Scalar:
        """(value - f) / (eta slope): how much of the decrease that the slope promises was there.

        1 where phi is linear, 1/2 at the minimum of a parabola, negative where phi rose.
        """
        return (self.value - self.f) / (self.eta * self.slope)

    def _forgiven(self, wanted: Scalar) -> Scalar:
        return torch.where(
            -wanted <= self.noise,
            self.noise,
            0.0,
        )


@dataclass(frozen=True)
class Bracket:
    """The longest step known to be too short and the shortest known to be too long."""

    below: Scalar  # 0: none is known
    above: Scalar  # inf: none is known
    first: bool  # whether only one trial has been made
    shrink: float  # the search's factor
    tolerance: float  # relative width below which there is nothing between the sides

    @property
    def spent(self) -> Tensor:
        """Whether both sides are known and nothing is left between them, per client."""
        return self.closed & (self.above - self.below <= self.tolerance * self.below)

    @property
    def closed(self) -> Tensor:
        """Whether both sides are known, per client."""
        return (self.below > 0) & torch.isfinite(self.above)


@dataclass(frozen=True)
class SearchResult:
    """How a search ended, for the next guess."""

    trials: Tensor
    step: Scalar  # accepted, 0: none
    quotient: Scalar  # of the accepted trial; NaN where there is none
    null: Tensor  # whether phi changed only within rounding: the quotient then says nothing


@dataclass(frozen=True)
class FailedSearch:
    """How a search without an acceptable step ended."""

    tried: Scalar  # the last trial, 0 where its value was not finite
    following: Scalar  # the trial that would have come next
    short: Scalar  # the longest trial that was only too short: it decreases enough; 0: none
    start: Scalar  # the value a round begins with


@dataclass(frozen=True)
class Fallback:
    """What becomes of a failed search."""

    step: Scalar  # to take, 0: none
    remembered: Scalar  # from which the next search begins


def aimed(
    eta: Scalar,
    quotient: Scalar,
    aim: float,
) -> Scalar:
    """The step at which the parabola through f(x), <g, d> and a trial has the quotient `aim`.

    The parabola's quotient is 1 - (1 - quotient) * step / eta: aim = c is the longest step that
    Armijo accepts on it. It is inf where the parabola does not bend up, and NaN stays NaN.
    """
    bend = 1 - quotient
    return torch.where(
        bend <= 0,
        torch.inf,
        eta * (1 - aim) / bend,
    )
