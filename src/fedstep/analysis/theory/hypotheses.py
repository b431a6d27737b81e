"""Which hypotheses of the theorems a method and its run meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan

from fedstep.algorithm import Algorithm
from fedstep.analysis.theory import bounds
from fedstep.analysis.theory.measured import Measured
from fedstep.analysis.theory.setup import Setup
from fedstep.corrections.base import Correction
from fedstep.local.directions import Steepest
from fedstep.local.moves import Straight
from fedstep.local.oracles import Autograd
from fedstep.local.solver import LocalSolver
from fedstep.local.terms import L2
from fedstep.server.codecs import Plain
from fedstep.server.rules import Extrapolate, Step
from fedstep.steps.cadence import Always
from fedstep.steps.conditions import Armijo
from fedstep.steps.references import Current
from fedstep.steps.resets import Grow, Keep, Restart
from fedstep.steps.search import LineSearch

YES = "yes"
NO = "no"
SEEN = "as far as seen"  # nothing that was measured speaks against it
UNKNOWN = "unknown"
FLAT_CURVATURE = 1e-9  # of L: a curvature below this is none


@dataclass(frozen=True)
class Check:
    """One hypothesis: what is asked for, what was found, and whether it holds."""

    what: str
    needed: str
    found: str
    holds: str  # one of the four words above


@dataclass(frozen=True)
class Judgement:
    """Whether something holds, and how that is known."""

    holds: str  # one of the four words above
    why: str


@dataclass(frozen=True)
class StrongConvexity:
    """mu of the clients (None: undefined) and where it is from."""

    mu: float | None
    why: str


def not_covered(algorithm: Algorithm) -> list[str]:
    """What of a method the theorems do not speak of."""
    local = algorithm.local
    slots = {
        "step": (local.step, isinstance(local.step, LineSearch)),
        "server": (algorithm.server, isinstance(algorithm.server, Step | Extrapolate)),
        "direction": (local.direction, isinstance(local.direction, Steepest)),
        "oracle": (local.oracle, isinstance(local.oracle, Autograd)),
        "move": (local.move, isinstance(local.move, Straight)),
        # `type`, not `isinstance`: a solver or correction of one's own derives from these
        "local": (local, type(local) is LocalSolver),
        "correction": (algorithm.correction, type(algorithm.correction) is Correction),
        "codec": (algorithm.codec, isinstance(algorithm.codec, Plain)),
    }
    reasons = _outside(slots)
    if isinstance(local.step, LineSearch):
        reasons += _outside(_search_slots(local.step))
    # an L2 term is part of f; any other makes the clients descend another function
    for term in local.terms:
        if not isinstance(term, L2):
            name = type(term).__name__
            reasons.append(f"terms={name}")
    return reasons


def strong_convexity(m: Measured, setup: Setup | None) -> StrongConvexity:
    """The strong convexity of the clients, as far as it is known."""
    convex = convexity(m).holds
    if convex == NO:
        return StrongConvexity(None, "negative curvature was seen")
    # of Lanczos the least curvature is an upper bound, which proves nothing
    if m.exact and m.lowest > FLAT_CURVATURE * m.L:
        why = "least curvature of a client or batch at the visited points"
        return StrongConvexity(m.lowest, why)
    if setup is not None and setup.l2 > 0 and convex == YES:
        return StrongConvexity(setup.l2, "weight of the L2 term: a lower bound")
    if m.exact:
        return StrongConvexity(None, "a client or batch has a flat direction")
    return StrongConvexity(None, "no L2 term, and the model is not tiny")


def convexity(m: Measured) -> Judgement:
    """Whether the clients are convex."""
    # Lanczos has the least eigenvalue only roughly
    rounding = 1e-2
    if m.exact:
        rounding = 1e-7
    clearly_negative = m.lowest < -rounding * abs(m.L)
    if clearly_negative:
        return Judgement(NO, f"curvature {m.lowest:.3g} was seen")
    if m.constant:
        return Judgement(YES, "the same curvatures at every visited point: quadratic")
    if m.linear:
        return Judgement(YES, "predictions linear in the parameters under a convex loss")
    return Judgement(SEEN, f"least curvature seen {m.lowest:.3g}")


def interpolation(m: Measured) -> Judgement:
    """Whether one point minimises every client and batch."""
    gap = max(m.client_gap, m.batch_gap)
    # how far there was to go: a gap is small or large in comparison with that
    size = max(m.curve.f[0] - m.least, 0.0)
    why = f"clients {m.client_gap:.3g}, batches {m.batch_gap:.3g} above their own minima"
    if gap <= 1e-8 * size:
        return Judgement(YES, why)
    if gap <= 1e-3 * size:
        return Judgement(SEEN, why)
    # without a minimum of f the gap was taken at the end of the run, which need not be one
    if m.best is None:
        return Judgement(UNKNOWN, why)
    return Judgement(NO, why)


def checks(m: Measured, setup: Setup) -> dict[str, Check]:
    """The hypotheses of all theorems by name."""
    convex = convexity(m)
    common = interpolation(m)
    return {
        "convex": Check(
            "convex",
            "every f_i convex",
            convex.why,
            convex.holds,
        ),
        "interpolation": Check(
            what="interpolation",
            needed="one point minimises all clients and batches",
            found=common.why,
            holds=common.holds,
        ),
        "c": Check(
            "c",
            "c > 1/2",
            f"c = {setup.c:g}",
            _word(setup.c > 0.5),
        ),
        "eta_g": _check_server_step(setup),
        "failed": _check_searches(m),
        "mu": _check_mu(m, setup),
        "mean_mu": _check_mean_mu(m),
        **_check_steps(m, setup),
        "kappa": _check_kappa(m, setup),
    }


def _check_server_step(setup: Setup) -> Check:
    step = f"{setup.eta_g:g}"
    if setup.extrapolates:
        step = "by its rule"
    return Check(
        what="eta_g",
        needed="0 < eta_g <= 1, or extrapolation",
        found=step,
        holds=_word(setup.extrapolates or setup.eta_g <= 1),
    )


def _check_searches(m: Measured) -> Check:
    # never a plain yes: only the searches of some rounds were watched
    holds = SEEN
    if m.failed:
        holds = NO
    return Check(
        "searches",
        "no failed search",
        f"{m.failed} failed",
        holds,
    )


def _check_mu(m: Measured, setup: Setup) -> Check:
    strong = strong_convexity(m, setup)
    text = strong.why
    if strong.mu is not None:
        text = f"mu = {strong.mu:.4g}"
    return Check(
        "mu",
        "mu > 0",
        text,
        _word(strong.mu is not None),
    )


def _check_mean_mu(m: Measured) -> Check:
    if isnan(m.lowest_mean):
        unknown = "not measured: the model is not tiny"
        return Check(
            "mu of f",
            "mu of f > 0",
            unknown,
            UNKNOWN,
        )
    text = f"mu = {m.lowest_mean:.4g}"
    return Check(
        "mu of f",
        "mu of f > 0",
        text,
        _word(m.lowest_mean > FLAT_CURVATURE * m.L),
    )


def _check_steps(m: Measured, setup: Setup) -> dict[str, Check]:
    numbers = (setup.c, setup.eta_g, m.steps, m.L, m.noise)
    limit = bounds.step_limit(*numbers)
    safe = bounds.safe_step_limit(*numbers)
    return {
        "limit": Check(
            what="max_step",
            needed=f"below (2c - eta_g) / (K L + 4 kappa) = {limit:.3g}",
            found=f"{setup.max_step:g}",
            holds=_word(setup.max_step < limit),
        ),
        "safe": Check(
            what="safe max_step",
            needed=f"below (2c - eta_g) / (2 K L + 4 kappa) = {safe:.3g}",
            found=f"{setup.max_step:g}",
            holds=_word(setup.max_step < safe),
        ),
    }


def _check_kappa(m: Measured, setup: Setup) -> Check:
    top = bounds.kappa_limit(setup.c, setup.max_step)
    return Check(
        what="kappa",
        needed=f"below c / (2 max_step) = {top:.3g}",
        found=f"{m.kappa:.3g}",
        holds=_word(not m.noise >= top),
    )


def _search_slots(step: LineSearch) -> dict[str, tuple[object, bool]]:
    """The parts of a search, and whether `smallest_step` is proved for them.

    Every search must begin at `low` or above, and its trials must lie on a grid.
    """
    never_lower = isinstance(step.reset, Keep | Restart)
    # a factor below 1 would let searches begin lower and lower
    if isinstance(step.reset, Grow):
        never_lower = step.reset.factor >= 1
    return {
        "condition": (step.condition, isinstance(step.condition, Armijo)),
        "reference": (step.reference, isinstance(step.reference, Current)),
        "reset": (step.reset, never_lower),
        "proposal": (step.proposal, step.proposal is None),
        "cadence": (step.cadence, isinstance(step.cadence, Always)),
    }


def _outside(slots: Mapping[str, tuple[object, bool]]) -> list[str]:
    outside = []
    for slot, (part, fits) in slots.items():
        if not fits:
            name = type(part).__name__
            outside.append(f"{slot}={name}")
    return outside


def _word(holds: bool) -> str:
    if holds:
        return YES
    return NO
