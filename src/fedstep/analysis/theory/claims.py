"""Every bound of the theorems with its measured counterpart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

from fedstep.analysis.theory import bounds
from fedstep.analysis.theory.hypotheses import (
    FLAT_CURVATURE,
    NO,
    UNKNOWN,
    Check,
    strong_convexity,
)
from fedstep.analysis.theory.measured import Measured
from fedstep.analysis.theory.setup import Setup

VALUE = "f(w-bar) - f*"
DISTANCE = "|w_T - w*|^2"
COMMON = ("convex", "interpolation", "eta_g")  # hypotheses of every theorem
PROVED = (*COMMON, "c", "failed")  # of every bound that is proved


@dataclass(frozen=True)
class Claim:
    """One bound: on what, its value and the measured one after the last round, and the names of
    its hypotheses.
    """

    theorem: str
    form: str  # "printed" or "proved"
    on: str  # what is bounded
    bound: float
    measured: float
    needs: tuple[str, ...]  # names of hypotheses

    @property
    def ratio(self) -> float:
        """Measured over bound; above 1 the bound is broken."""
        # `not >` also where the bound is NaN
        if not self.bound > 0:
            return nan
        return self.measured / self.bound

    def broken(self, checks: Mapping[str, Check]) -> list[str]:
        """The hypotheses that do not hold, or of which nothing is known."""
        needed = [checks[name] for name in self.needs if name in checks]
        return [check.what for check in needed if check.holds in (NO, UNKNOWN)]


@dataclass(frozen=True)
class Constants:
    """What the bounds are made of.

    NaN where a number is undefined, and every bound with it is then NaN.
    """

    c: float  # Armijo's
    c_left: float  # of c, after noise
    low: float  # the smallest step of a search
    mu: float  # strong convexity of every client
    mean_mu: float  # of their mean

    @staticmethod
    def of(m: Measured, setup: Setup) -> Constants:
        c = setup.c
        # at 1/2 and below nothing is left of the decrease
        if c <= 0.5:
            c = nan
        c_left = bounds.reduced_c(setup.c, m.noise, setup.max_step)
        # more noise than the theorem allows: its bound is none
        if not c_left > 0:
            c_left = nan
        mu = strong_convexity(m, setup).mu
        if mu is None:
            mu = nan
        mean_mu = m.lowest_mean
        # a curvature that is rounding would give a rate of its own
        if not mean_mu > FLAT_CURVATURE * m.L:
            mean_mu = nan
        low = bounds.smallest_step(
            m.L,
            setup.c,
            setup.start,
            setup.shrink,
        )
        return Constants(
            c=c,
            c_left=c_left,
            low=low,
            mu=mu,
            mean_mu=mean_mu,
        )


def claims(m: Measured, setup: Setup) -> list[Claim]:
    """Every bound with its measured counterpart."""
    constants = Constants.of(m, setup)
    made = [
        *_convex_claims(m, setup, constants),
        *_strongly_convex_claims(m, setup, constants),
    ]
    plain_sgd = m.population == 1 and m.steps == 1 and setup.eta_g == 1
    if plain_sgd and not setup.extrapolates:
        made += _sgd_claims(m, setup, constants)
    return made


def _convex_claims(
    m: Measured,
    setup: Setup,
    constants: Constants,
) -> list[Claim]:
    theorem = f"{_method(setup)}, convex"
    gap = _gap(m)
    printed = bounds.printed_convex(
        constants.c_left,
        setup.eta_g,
        m.steps,
        m.L,
        setup.max_step,
        m.rounds,
        m.D2,
    )
    proved = bounds.convex(
        constants.c,
        setup.eta_g,
        constants.low,
        m.rounds,
        m.D2,
    )
    return [
        Claim(
            theorem,
            "printed",
            VALUE,
            printed,
            gap,
            (*COMMON, "limit", "kappa"),
        ),
        Claim(
            theorem,
            "proved",
            VALUE,
            proved,
            gap,
            PROVED,
        ),
    ]


def _strongly_convex_claims(
    m: Measured,
    setup: Setup,
    constants: Constants,
) -> list[Claim]:
    theorem = f"{_method(setup)}, strongly convex"
    far = m.curve.distance[-1]
    printed = bounds.printed_strongly(
        constants.mu,
        setup.eta_g,
        m.steps,
        setup.max_step,
        m.rounds,
        m.D2,
    )
    # the contraction of a step needs c >= 1/2
    proved = nan
    if setup.c > 0.5:
        proved = bounds.strongly(
            constants.mu,
            setup.eta_g,
            m.steps,
            constants.low,
            m.rounds,
            m.D2,
        )
    in_the_mean = bounds.strongly_in_the_mean(
        constants.c,
        constants.mean_mu,
        setup.eta_g,
        constants.low,
        m.rounds,
        m.D2,
    )
    return [
        Claim(
            theorem,
            "printed",
            DISTANCE,
            printed,
            far,
            (*COMMON, "mu", "safe", "kappa"),
        ),
        Claim(
            theorem,
            "proved",
            DISTANCE,
            proved,
            far,
            (*PROVED, "mu"),
        ),
        Claim(
            f"{theorem} mean",
            "proved",
            DISTANCE,
            in_the_mean,
            far,
            (*PROVED, "mean_mu"),
        ),
    ]


def _sgd_claims(
    m: Measured,
    setup: Setup,
    constants: Constants,
) -> list[Claim]:
    """One client that takes one step is plain SGD."""
    theorem = "SGD, Theorem 1"
    needs = ("convex", "interpolation", "c")
    gap = _gap(m)
    printed = bounds.printed_sgd(
        constants.c,
        setup.max_step,
        m.rounds,
        m.D2,
    )
    proved = bounds.sgd(
        constants.c,
        constants.low,
        m.rounds,
        m.D2,
    )
    return [
        Claim(
            theorem,
            "printed",
            VALUE,
            printed,
            gap,
            needs,
        ),
        Claim(
            theorem,
            "proved",
            VALUE,
            proved,
            gap,
            (*needs, "failed"),
        ),
    ]


def _gap(m: Measured) -> float:
    # the lowest value of the run in place of f* would make every bound look good
    if m.best is None:
        return nan
    return m.curve.f_mean[-1] - m.best.value


def _method(setup: Setup) -> str:
    if setup.extrapolates:
        return "FedExpSLS"
    return "FedSLS"
