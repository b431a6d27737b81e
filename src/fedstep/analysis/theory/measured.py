"""What was measured of a run, and the constants of the theorems that follow from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isnan, nan, sqrt

from fedstep.analysis.theory.curvature import Spectrum
from fedstep.analysis.theory.minimum import Minimum
from fedstep.analysis.theory.step_sums import StepSums

VANISHED = 1e-24  # mean |grad f_i|^2 below which nothing can be said of its ratio to |grad f|^2


@dataclass(frozen=True)
class VisitedPoint:
    """The server's model before a round (or after the last), and what the clients' functions are
    there.
    """

    round: int
    slope: float  # |grad f|^2
    slopes: float  # mean |grad f_i|^2
    clients: tuple[Spectrum, ...] = ()  # of the f_i; empty where curvature was not looked at
    batches: tuple[Spectrum, ...] = ()  # of the clients' first batches
    mean: Spectrum | None = None  # of f; None where the model is not tiny


@dataclass(frozen=True)
class IterateCurve:
    """A number for every round: f(w_t), f of the mean of w_0 ..

    W_{t-1}, |w_t - w*|^2, and the server's steps.
    """

    f: list[float] = field(default_factory=list)  # at w_0 too: one more than there are rounds
    f_mean: list[float] = field(default_factory=list)  # NaN at first: a mean of nothing
    distance: list[float] = field(default_factory=list)  # NaN where w* was not looked for
    eta_g: list[float] = field(default_factory=list)  # one for every round


@dataclass(frozen=True)
class Gaps:
    """How far clients and their batches are above their own minima at one common point."""

    least: float  # mean over some clients of the lowest value found of f_i
    client: float  # mean over the same clients of f_i at the point less that
    batch: float  # the same on single batches
    clients: int  # behind the three numbers above


@dataclass(frozen=True)
class Measured:
    """All that was measured of one run.

    `best` is the lowest point found of f, None where it was not looked for.
    """

    rounds: int
    steps: int  # K
    population: int
    clients: int  # that f is the mean of
    linear: bool  # predictions are linear in the parameters
    full_rounds: bool  # all clients in every round
    full_gradients: bool  # every batch holds all samples of its client
    points: tuple[VisitedPoint, ...]
    looks: tuple[StepSums, ...]  # rounds whose local steps were watched
    curve: IterateCurve
    best: Minimum | None
    gaps: Gaps
    D2: float  # |w_0 - w*|^2

    @property
    def least(self) -> float:
        """The mean over some clients of the lowest value found of f_i."""
        return self.gaps.least

    @property
    def client_gap(self) -> float:
        """The mean over the same clients of f_i at `best` (else at the end) less that."""
        return self.gaps.client

    @property
    def batch_gap(self) -> float:
        """The same on single batches."""
        return self.gaps.batch

    @property
    def smooth(self) -> dict[str, float]:
        """The largest smoothness seen: of clients, of batches, along the steps, and by the
        searches that had to shrink.
        """
        of_clients: list[float] = []
        of_batches: list[float] = []
        for point in self.points:
            of_clients += [spectrum.high for spectrum in point.clients]
            of_batches += [spectrum.high for spectrum in point.batches]
        along_steps = [look.smooth for look in self.looks]
        # 0: no search had to shrink, which proves nothing
        by_searches = [look.forced for look in self.looks if look.forced]
        return {
            "clients": max(of_clients, default=nan),
            "batches": max(of_batches, default=nan),
            "steps": max(along_steps, default=nan),
            "searches": max(by_searches, default=nan),
        }

    @property
    def L(self) -> float:
        """The largest of them: smoothness that was seen anywhere."""
        # `max` of NaN and a number depends on their order
        known = [value for value in self.smooth.values() if not isnan(value)]
        return max(known, default=nan)

    @property
    def lowest(self) -> float:
        """The smallest curvature of a client or batch."""
        lows = [spectrum.low for spectrum in self._spectra()]
        return min(lows, default=nan)

    @property
    def lowest_mean(self) -> float:
        """The smallest curvature of f."""
        lows = [point.mean.low for point in self.points if point.mean]
        return min(lows, default=nan)

    @property
    def exact(self) -> bool:
        """Whether the curvatures are those of whole Hessians."""
        return all(s.exact for s in self._spectra())

    @property
    def constant(self) -> bool:
        """Whether every client has the same curvatures at all points, as a quadratic has."""
        visited = [point.clients for point in self.points if point.clients]
        if not self.exact or len(visited) < 2:
            return False
        close = 1e-7 * max(self.L, 1e-300)  # not 0 for a function without curvature
        first = visited[0]
        for later in visited[1:]:
            for a, b in zip(first, later, strict=True):
                low_moved = abs(a.low - b.low) > close
                high_moved = abs(a.high - b.high) > close
                if low_moved or high_moved:
                    return False
        return True

    @property
    def kappa(self) -> float:
        """The largest noise of a round; NaN where no step was taken."""
        known = [look.kappa for look in self.looks if not isnan(look.kappa)]
        return max(known, default=nan)

    @property
    def noise(self) -> float:
        """kappa, 0 where it was not measured."""
        if isnan(self.kappa):
            return 0.0
        return self.kappa

    @property
    def B(self) -> float:
        """The smallest B with mean |grad f_i|^2 <= B^2 |grad f|^2 at the points."""
        ratios = []
        for point in self.points:
            # at a common minimum both vanish, and their ratio is rounding
            if point.slopes <= VANISHED:
                continue
            if point.slope > 0:
                ratios.append(sqrt(point.slopes / point.slope))
            else:
                ratios.append(inf)
        return max(ratios, default=nan)

    @property
    def G(self) -> float:
        """The smallest G with mean |grad f_i|^2 <= G^2 + |grad f|^2 at the points."""
        excesses = []
        for point in self.points:
            # negative by rounding only: a mean of squares is no less than the square of the mean
            excess = max(point.slopes - point.slope, 0.0)
            excesses.append(sqrt(excess))
        return max(excesses, default=nan)

    @property
    def failed(self) -> int:
        """Searches that found no step, of those watched."""
        return sum(look.failed for look in self.looks)

    @property
    def rises(self) -> int:
        """Rounds after which f was higher."""
        return sum(after > before for before, after in pairwise(self.curve.f))

    @property
    def floor(self) -> float:
        """The least batch loss seen."""
        return min((look.floor for look in self.looks), default=nan)

    def _spectra(self) -> Iterator[Spectrum]:
        for point in self.points:
            yield from point.clients
            yield from point.batches
