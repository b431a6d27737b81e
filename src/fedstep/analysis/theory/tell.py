"""What was measured, in words: tables, notes, and a dictionary for the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import nan
from typing import Any

from fedstep.algorithm import Algorithm
from fedstep.analysis.grid import Grid
from fedstep.analysis.theory import bounds
from fedstep.analysis.theory.measure import Measured
from fedstep.analysis.theory.theorems import (
    Check,
    Claim,
    Setup,
    checks,
    claims,
    lemmas,
    not_covered,
    strong_convexity,
)

FALSE = "printed, false"


@dataclass(frozen=True)
class Finding:
    """One method of a study, run and measured."""

    label: str
    spec: str
    seed: int
    algorithm: Algorithm
    measured: Measured

    @property
    def setup(self) -> Setup | None:
        return Setup.of(self.algorithm)


def grids(found: Finding) -> list[Grid]:
    """Measured quantities, hypotheses and bounds; without a line search the first only."""
    made = [Grid("Measured", ("quantity", "value", "what it is"), tuple(_quantities(found)))]
    setup = found.setup
    if setup is None or not_covered(found.algorithm):
        return made
    known = checks(found.measured, setup)
    rows = tuple((c.what, c.needed, c.found, c.holds) for c in known.values())
    made.append(Grid("Hypotheses", ("hypothesis", "needed", "found", "holds"), rows))
    each = [
        (
            c.theorem.split(", ")[-1],
            FALSE if c.form == "printed" else "proved",
            c.on,
            "none" if c.bound <= 0 else number(c.bound),
            number(c.measured),
            number(c.ratio),
            _standing(c, known),
        )
        for c in (*claims(found.measured, setup), *lemmas(found.measured, setup))
    ]
    heads = ("bound", "form", "on", "at most", "measured", "ratio", "hypotheses")
    return [*made, Grid("Bounds", heads, tuple(each))]


def _standing(claim: Claim, known: Mapping[str, Check]) -> str:
    broken = claim.broken(known)
    if broken:
        return f"fail: {', '.join(broken)}"
    return "hold, and the bound is broken" if claim.measured > claim.bound > 0 else "hold"


def _quantities(found: Finding) -> list[tuple[str, str, str]]:
    m, s = found.measured, found.setup
    how = (
        "whole Hessians at the visited points"
        if m.exact
        else "Lanczos at the visited points: a lower bound"
    )
    mu, why = strong_convexity(m, s)
    rows = [
        ("L of clients", number(m.smooth["clients"]), f"largest curvature of an f_i; {how}"),
        ("L of batches", number(m.smooth["batches"]), f"of a batch; {how}"),
        (
            "L along the steps",
            number(m.smooth["steps"]),
            "largest |g(x+) - g(x)| / |x+ - x| on a batch: a lower bound",
        ),
        (
            "L by searches",
            number(m.smooth["searches"]),
            "2 (1 - c) shrink / eta of a search that had to shrink: a lower bound",
        ),
        ("mu of clients", "undefined" if mu is None else number(mu), why),
        (
            "mu of f",
            number(m.lowest_mean),
            "least curvature of f at the visited points, where the model is tiny",
        ),
        (
            "kappa",
            number(m.kappa),
            "largest of the rounds' sum |f_xi - f_i| / sum eta^2 |g|^2, failed searches left out",
        ),
        (
            "client gap",
            number(m.client_gap),
            f"mean of f_i - min f_i at {_where(m)}, {_sample(m)}: an estimate",
        ),
        ("batch gap", number(m.batch_gap), "the same on the clients' first batches"),
        ("least batch loss", number(m.floor), "seen before or after a step"),
        (
            "B",
            number(m.B),
            "smallest with mean |grad f_i|^2 <= B^2 |grad f|^2 at the visited points (G = 0)",
        ),
        ("G", number(m.G), "smallest with mean |grad f_i|^2 <= G^2 + |grad f|^2 there (B = 1)"),
        (
            "client drift",
            number(max((k.drift for k in m.looks), default=nan)),
            "largest mean |x_k - w|^2 of a round",
        ),
        ("shortest step", number(min((k.shortest for k in m.looks), default=nan)), _shortest(m, s)),
        (
            "f, first to last",
            f"{number(m.curve.f[0])} to {number(m.curve.f[-1])}",
            f"f rose in {m.rises} rounds of {m.rounds}",
        ),
        ("descent a round", number((m.curve.f[0] - m.curve.f[-1]) / m.rounds), _descent(m)),
        ("f*", number(m.best.value) if m.best else "-", _lowest(m)),
        ("|w_0 - w*|^2", number(m.D2), "to the point found"),
        ("failed searches", str(m.failed), f"of {sum(k.steps for k in m.looks)} steps looked at"),
    ]
    return [row for row in rows if row[1] != "-"]


def _where(m: Measured) -> str:
    return "the lowest point found of f" if m.best else "the run's last point: an upper bound"


def _sample(m: Measured) -> str:
    return f"{m.asked} of {m.population} clients" if m.asked < m.population else "all clients"


def _shortest(m: Measured, s: Setup | None) -> str:
    if s is None:
        return "taken by a client"
    low = bounds.smallest_step(m.L, s.c, s.start, s.shrink)
    return f"a search on an L-smooth function ends at {low:.3g} or more"


def _descent(m: Measured) -> str:
    falls = [a - b for a, b in pairwise(m.curve.f)]
    return f"mean decrease of f; from {number(min(falls))} to {number(max(falls))}"


def _lowest(m: Measured) -> str:
    return (
        f"lowest value found: an upper bound; |grad f| = {m.best.slope:.2g} there" if m.best else ""
    )


def notes(found: Finding) -> list[str]:
    """What to keep in mind."""
    m, s = found.measured, found.setup
    said = []
    reasons = not_covered(found.algorithm)
    if reasons:
        said.append(
            f"The theorems do not cover this method: {', '.join(reasons)}. Nothing is bounded."
        )
    if m.clients < m.population:
        said.append(f"f is the mean over a sample of {m.clients} of the {m.population} clients.")
    if not (m.full_rounds and m.full_gradients) and not reasons:
        what = [
            w for w, full in (("clients", m.full_rounds), ("batches", m.full_gradients)) if not full
        ]
        said.append(
            f"{' and '.join(what).capitalize()} are sampled: the bounds are on expectations, this is one run."
        )
    if not reasons and s is not None:
        said.append(
            "L is what was seen and may be larger elsewhere; the bounds are computed with it."
        )
        said.append(
            "The non-convex theorems have a right side that does not depend on T: they state no rate."
        )
    if s is not None and s.extrapolates and not reasons:
        said.append(
            "The printed bounds of FedExpSLS improve with the largest eta_g, which is wrong: here 1 stands for it."
        )
    return said


def number(value: float) -> str:
    """Three or four digits; a dash for what was not measured."""
    return f"{value:.4g}" if value == value else "-"


def record(found: Finding) -> dict[str, Any]:
    """All of it for theory.json."""
    m, s = found.measured, found.setup
    covered = s is not None and not not_covered(found.algorithm)
    known = checks(m, s) if s is not None and covered else {}
    said = [*claims(m, s), *lemmas(m, s)] if s is not None and covered else []
    return {
        "label": found.label,
        "spec": found.spec,
        "seed": found.seed,
        "rounds": m.rounds,
        "local_steps": m.steps,
        "clients": m.clients,
        "population": m.population,
        "constants": {
            "L": m.smooth,
            "exact": m.exact,
            "mu": strong_convexity(m, s)[0],
            "mu_mean": m.lowest_mean,
            "kappa": m.kappa,
            "client_gap": m.client_gap,
            "batch_gap": m.batch_gap,
            "least_batch_loss": m.floor,
            "B": m.B,
            "G": m.G,
            "f_star": m.best.value if m.best else None,
            "D2": m.D2,
        },
        "looks": [
            {
                **{k: v for k, v in vars(x).items() if k not in ("drifts", "limits")},
                "kappa": x.kappa,
                "drift": x.drift,
                "drift_bound": x.limit,
            }
            for x in m.looks
        ],
        "points": [
            {"round": p.round, "slope_sq": p.slope, "slopes_sq": p.slopes} for p in m.points
        ],
        "hypotheses": {name: asdict(check) for name, check in known.items()},
        "bounds": [{**asdict(c), "ratio": c.ratio, "failing": c.broken(known)} for c in said],
        "curve": asdict(m.curve),
        "notes": notes(found),
    }
