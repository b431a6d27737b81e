"""The measured constants in words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isnan, nan

from fedstep.analysis.theory import bounds
from fedstep.analysis.theory.hypotheses import strong_convexity
from fedstep.analysis.theory.measured import Measured
from fedstep.analysis.theory.setup import Setup

MISSING = "-"


@dataclass(frozen=True)
class Quantity:
    """A row of the table: what was measured, its value, and what that is."""

    name: str
    value: str
    meaning: str


def number_text(value: float) -> str:
    """Three or four digits; a dash for what was not measured."""
    if isnan(value):
        return MISSING
    return f"{value:.4g}"


def quantities(m: Measured, setup: Setup | None) -> list[Quantity]:
    """Everything that was measured."""
    rows = [
        *_curvatures(m, setup),
        *_noise(m),
        *_steepness(m, setup),
        *_descent(m),
    ]
    # a row of dashes would ask the reader what went wrong
    return [row for row in rows if row.value != MISSING]


def _curvatures(m: Measured, setup: Setup | None) -> list[Quantity]:
    how = "Lanczos at the visited points: a lower bound"
    if m.exact:
        how = "whole Hessians at the visited points"
    strong = strong_convexity(m, setup)
    mu = "undefined"
    if strong.mu is not None:
        mu = number_text(strong.mu)
    return [
        Quantity(
            "L of clients",
            number_text(m.smooth["clients"]),
            f"largest curvature of an f_i; {how}",
        ),
        Quantity(
            "L of batches",
            number_text(m.smooth["batches"]),
            f"of a batch; {how}",
        ),
        Quantity(
            "L along the steps",
            number_text(m.smooth["steps"]),
            "largest |g(x+) - g(x)| / |x+ - x| on a batch: a lower bound",
        ),
        Quantity(
            "L by searches",
            number_text(m.smooth["searches"]),
            "2 (1 - c) shrink / eta of a search that had to shrink: a lower bound",
        ),
        Quantity("mu of clients", mu, strong.why),
        Quantity(
            "mu of f",
            number_text(m.lowest_mean),
            "least curvature of f at the visited points, where the model is tiny",
        ),
    ]


def _noise(m: Measured) -> list[Quantity]:
    # a gap at any other point than the minimum of f is at least as large
    where = "the run's last point: an upper bound"
    if m.best is not None:
        where = "the lowest point found of f"
    sample = "all clients"
    if m.gaps.clients < m.population:
        sample = f"{m.gaps.clients} of {m.population} clients"
    return [
        Quantity(
            "kappa",
            number_text(m.kappa),
            "largest of the rounds' sum |f_xi - f_i| / sum eta^2 |g|^2, failed searches left out",
        ),
        Quantity(
            "client gap",
            number_text(m.client_gap),
            f"mean of f_i - min f_i at {where}, {sample}: an estimate",
        ),
        Quantity(
            "batch gap",
            number_text(m.batch_gap),
            "the same on the clients' first batches",
        ),
        Quantity(
            "least batch loss",
            number_text(m.floor),
            "seen before or after a step",
        ),
    ]


def _steepness(m: Measured, setup: Setup | None) -> list[Quantity]:
    drift = max((look.drift for look in m.looks), default=nan)
    shortest = min((look.shortest for look in m.looks), default=nan)
    # the theorems' smallest step beside the one seen, where there is one
    taken = "taken by a client"
    if setup is not None:
        low = bounds.smallest_step(
            m.L,
            setup.c,
            setup.start,
            setup.shrink,
        )
        taken = f"a search on an L-smooth function ends at {low:.3g} or more"
    return [
        Quantity(
            "B",
            number_text(m.B),
            "smallest with mean |grad f_i|^2 <= B^2 |grad f|^2 at the visited points (G = 0)",
        ),
        Quantity(
            "G",
            number_text(m.G),
            "smallest with mean |grad f_i|^2 <= G^2 + |grad f|^2 there (B = 1)",
        ),
        Quantity(
            "client drift",
            number_text(drift),
            "largest mean |x_k - w|^2 of a round",
        ),
        Quantity("shortest step", number_text(shortest), taken),
    ]


def _descent(m: Measured) -> list[Quantity]:
    f = m.curve.f
    # falls of single rounds may be negative: no theorem says that every round descends
    falls = [before - after for before, after in pairwise(f)]
    lowest = MISSING
    slope = ""
    if m.best is not None:
        lowest = number_text(m.best.value)
        slope = f"lowest value found: an upper bound; |grad f| = {m.best.slope:.2g} there"
    looked_at = sum(look.steps for look in m.looks)
    return [
        Quantity(
            "f, first to last",
            f"{number_text(f[0])} to {number_text(f[-1])}",
            f"f rose in {m.rises} rounds of {m.rounds}",
        ),
        Quantity(
            "descent a round",
            number_text((f[0] - f[-1]) / m.rounds),
            f"mean decrease of f; from {number_text(min(falls))} to {number_text(max(falls))}",
        ),
        Quantity("f*", lowest, slope),
        Quantity(
            "|w_0 - w*|^2",
            number_text(m.D2),
            "to the point found",
        ),
        Quantity(
            "failed searches",
            str(m.failed),
            f"of {looked_at} steps looked at",
        ),
    ]
