"""The lemmas behind the theorems, with their measured counterparts."""

from __future__ import annotations

from collections.abc import Sequence

from fedstep.analysis.theory import bounds
from fedstep.analysis.theory.claims import Claim
from fedstep.analysis.theory.measured import Measured
from fedstep.analysis.theory.setup import Setup

# by name: what is bounded, and the names of the hypotheses
LEMMAS = {
    "gradients": ("mean |grad f_i|^2", ()),
    "drift by steps": ("mean |x_k - w|^2", ("failed",)),
    "drift by f": ("mean |x_k - w|^2", ("failed",)),
}


def lemmas(m: Measured, setup: Setup) -> list[Claim]:
    """The lemmas behind the theorems, each at the visited point or round where it is nearest to
    its bound.
    """
    # rounding may put a value a little below the lowest one found
    gaps = [max(value - m.least, 0.0) for value in m.curve.f]
    kinds = (
        _gradients(m, setup, gaps),
        _drift_by_steps(m),
        _drift_by_value(m, setup, gaps),
    )
    made = []
    for instances in kinds:
        # 0 or NaN on either side has no ratio
        usable = [claim for claim in instances if claim.measured > 0 and claim.bound > 0]
        if usable:
            nearest = max(usable, key=lambda claim: claim.ratio)
            made.append(nearest)
    return made


def _gradients(
    m: Measured,
    setup: Setup,
    gaps: Sequence[float],
) -> list[Claim]:
    low = bounds.smallest_step(
        m.L,
        setup.c,
        setup.start,
        setup.shrink,
    )
    instances = []
    for point in m.points:
        gap = gaps[point.round]
        bound = bounds.gradients(setup.c, low, gap)
        instances.append(_lemma("gradients", bound, point.slopes))
    return instances


def _drift_by_steps(m: Measured) -> list[Claim]:
    instances = []
    for look in m.looks:
        instances.append(_lemma("drift by steps", look.limit, look.drift))
    return instances


def _drift_by_value(
    m: Measured,
    setup: Setup,
    gaps: Sequence[float],
) -> list[Claim]:
    # the drift lemma is on full gradients of all clients
    if not m.full_gradients or not m.full_rounds:
        return []
    instances = []
    for look in m.looks:
        limit = bounds.drift(
            setup.c,
            m.steps,
            setup.max_step,
            gaps[look.round],
        )
        instances.append(_lemma("drift by f", limit, look.drift))
    return instances


def _lemma(
    name: str,
    bound: float,
    measured: float,
) -> Claim:
    on, needs = LEMMAS[name]
    return Claim(
        theorem=f"lemma: {name}",
        form="proved",
        on=on,
        bound=bound,
        measured=measured,
        needs=needs,
    )
