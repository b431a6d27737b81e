"""What was measured, in words: tables, notes, and a dictionary for the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedstep.algorithm import Algorithm
from fedstep.analysis.grid import Grid
from fedstep.analysis.theory.claims import Claim, claims
from fedstep.analysis.theory.hypotheses import Check, checks, not_covered, strong_convexity
from fedstep.analysis.theory.lemmas import lemmas
from fedstep.analysis.theory.measured import Measured
from fedstep.analysis.theory.quantities import number_text, quantities
from fedstep.analysis.theory.setup import Setup
from fedstep.analysis.theory.step_sums import StepSums

FALSE = "printed, false"  # docs/theory.md has a run that breaks each printed bound


@dataclass(frozen=True)
class Finding:
    """One method of a study, run and measured."""

    label: str  # in the study
    spec: str  # the call that made the algorithm
    seed: int
    algorithm: Algorithm
    measured: Measured

    @property
    def setup(self) -> Setup | None:
        """The numbers that the theorems are about, whether or not they cover the method."""
        return Setup.of(self.algorithm)

    @property
    def covered(self) -> Setup | None:
        """The same, None where the theorems do not speak of the method."""
        if not_covered(self.algorithm):
            return None
        return self.setup


def finding_grids(finding: Finding) -> list[Grid]:
    """Measured quantities, hypotheses and bounds.

    Of a method outside the theorems the first only.
    """
    measured = quantities(finding.measured, finding.setup)
    rows = tuple((q.name, q.value, q.meaning) for q in measured)
    heads: tuple[str, ...] = ("quantity", "value", "what it is")
    made = [Grid("Measured", heads, rows)]
    setup = finding.covered
    if setup is None:
        return made
    known = checks(finding.measured, setup)
    hypotheses = tuple((c.what, c.needed, c.found, c.holds) for c in known.values())
    made.append(
        Grid(
            "Hypotheses",
            ("hypothesis", "needed", "found", "holds"),
            hypotheses,
        )
    )
    all_claims = [*claims(finding.measured, setup), *lemmas(finding.measured, setup)]
    heads = ("bound", "form", "on", "at most", "measured", "ratio", "hypotheses")
    made.append(
        Grid(
            "Bounds",
            heads,
            tuple(_claim_row(claim, known) for claim in all_claims),
        )
    )
    return made


def finding_notes(finding: Finding) -> list[str]:
    """What to keep in mind."""
    m = finding.measured
    notes = []
    reasons = not_covered(finding.algorithm)
    if reasons:
        notes.append(
            f"The theorems do not cover this method: {', '.join(reasons)}. Nothing is bounded."
        )
    # before the early return: the measured numbers of any method depend on the sample
    if m.clients < m.population:
        notes.append(f"f is the mean over a sample of {m.clients} of the {m.population} clients.")
    if reasons:
        return notes
    sampled = _sampled(m)
    if sampled:
        notes.append(
            f"{' and '.join(sampled).capitalize()} are sampled: "
            "the bounds are on expectations, this is one run."
        )
    setup = finding.covered
    if setup is None:
        return notes
    notes.append("L is what was seen and may be larger elsewhere; the bounds are computed with it.")
    notes.append(
        "The non-convex theorems have a right side that does not depend on T: they state no rate."
    )
    if setup.extrapolates:
        notes.append(
            "The printed bounds of FedExpSLS improve with the largest eta_g, which is wrong: "
            "here 1 stands for it."
        )
    return notes


def finding_record(finding: Finding) -> dict[str, Any]:
    """All of it for theory.json."""
    m = finding.measured
    setup = finding.covered
    known: dict[str, Check] = {}
    all_claims: list[Claim] = []
    if setup is not None:
        known = checks(m, setup)
        all_claims = [*claims(m, setup), *lemmas(m, setup)]
    points = []
    for point in m.points:
        slopes = {
            "round": point.round,
            "slope_sq": point.slope,
            "slopes_sq": point.slopes,
        }
        points.append(slopes)
    return {
        "label": finding.label,
        "spec": finding.spec,
        "seed": finding.seed,
        "rounds": m.rounds,
        "local_steps": m.steps,
        "clients": m.clients,
        "population": m.population,
        "constants": _constants(finding),
        "looks": [_look_record(look) for look in m.looks],
        "points": points,
        "hypotheses": {name: asdict(check) for name, check in known.items()},
        "bounds": [_claim_record(claim, known) for claim in all_claims],
        "curve": asdict(m.curve),
        "notes": finding_notes(finding),
    }


def _claim_row(claim: Claim, known: Mapping[str, Check]) -> tuple[str, ...]:
    form = "proved"
    if claim.form == "printed":
        form = FALSE
    # a negative bound bounds nothing; NaN is shown as a dash, not as "none"
    bound = "none"
    if not claim.bound <= 0:
        bound = number_text(claim.bound)
    # the method stands above the table
    theorem = claim.theorem.split(", ")[-1]
    return (
        theorem,
        form,
        claim.on,
        bound,
        number_text(claim.measured),
        number_text(claim.ratio),
        _standing(claim, known),
    )


def _standing(claim: Claim, known: Mapping[str, Check]) -> str:
    broken = claim.broken(known)
    if broken:
        return f"fail: {', '.join(broken)}"
    if claim.measured > claim.bound > 0:
        return "hold, and the bound is broken"
    return "hold"


def _sampled(m: Measured) -> list[str]:
    sampled = []
    if not m.full_rounds:
        sampled.append("clients")
    if not m.full_gradients:
        sampled.append("batches")
    return sampled


def _constants(finding: Finding) -> dict[str, Any]:
    m = finding.measured
    lowest = None
    if m.best is not None:
        lowest = m.best.value
    return {
        "L": m.smooth,
        "exact": m.exact,
        "mu": strong_convexity(m, finding.setup).mu,
        "mu_mean": m.lowest_mean,
        "kappa": m.kappa,
        "client_gap": m.client_gap,
        "batch_gap": m.batch_gap,
        "least_batch_loss": m.floor,
        "B": m.B,
        "G": m.G,
        "f_star": lowest,
        "D2": m.D2,
    }


def _look_record(look: StepSums) -> dict[str, Any]:
    # the means stand for the lists: a file with every client of every round would be large
    record = dict(vars(look))
    del record["drifts"]
    del record["limits"]
    record["kappa"] = look.kappa
    record["drift"] = look.drift
    record["drift_bound"] = look.limit
    return record


def _claim_record(claim: Claim, known: Mapping[str, Check]) -> dict[str, Any]:
    record = asdict(claim)
    record["ratio"] = claim.ratio
    record["failing"] = claim.broken(known)
    return record
