"""Which hypotheses of which theorem a run meets, and how far it is from each bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

from fedstep.algorithm import Algorithm
from fedstep.analysis.theory import bounds
from fedstep.analysis.theory.measure import Measured
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

YES, NO, SEEN, UNKNOWN = "yes", "no", "as far as seen", "unknown"


@dataclass(frozen=True)
class Setup:
    """The numbers of a method that the theorems are about."""

    c: float
    max_step: float
    start: float  # where the first search of a round begins
    shrink: float
    eta_g: float  # 1 for an extrapolated server
    extrapolates: bool
    l2: float

    @staticmethod
    def of(alg: Algorithm) -> Setup | None:
        """None where the clients do not search with Armijo's condition, or the server's step is not one number."""
        step, server = alg.local.step, alg.server
        if not isinstance(step, LineSearch) or not isinstance(step.condition, Armijo):
            return None
        if not isinstance(server, Step | Extrapolate):
            return None
        eta_g = server.step if isinstance(server, Step) else 1.0
        shrink = 1 / (1 + step.tolerance) if step.largest else step.shrink
        start = step.max_step if step.start is None else step.start
        l2 = sum(t.weight for t in alg.local.terms if isinstance(t, L2))
        return Setup(
            step.condition.c,
            step.max_step,
            start,
            shrink,
            eta_g,
            isinstance(server, Extrapolate),
            l2,
        )


@dataclass(frozen=True)
class Check:
    """One hypothesis: what is asked for, what was found, and whether it holds."""

    what: str
    needed: str
    found: str
    holds: str


@dataclass(frozen=True)
class Claim:
    """One bound: on what, its value and the measured one after the last round, and the names of its hypotheses."""

    theorem: str
    form: str  # "printed" or "proved"
    on: str
    bound: float
    measured: float
    needs: tuple[str, ...]

    @property
    def ratio(self) -> float:
        return self.measured / self.bound if self.bound > 0 else nan

    def broken(self, checks: Mapping[str, Check]) -> list[str]:
        """The hypotheses that do not hold, or of which nothing is known."""
        return [
            checks[n].what for n in self.needs if n in checks and checks[n].holds in (NO, UNKNOWN)
        ]


def not_covered(alg: Algorithm) -> list[str]:
    """What of a method the theorems do not speak of."""
    local = alg.local
    slots = {
        "step": (local.step, isinstance(local.step, LineSearch)),
        "server": (alg.server, isinstance(alg.server, Step | Extrapolate)),
        "direction": (local.direction, isinstance(local.direction, Steepest)),
        "oracle": (local.oracle, isinstance(local.oracle, Autograd)),
        "move": (local.move, isinstance(local.move, Straight)),
        "local": (local, type(local) is LocalSolver),
        "correction": (alg.correction, type(alg.correction) is Correction),
        "codec": (alg.codec, isinstance(alg.codec, Plain)),
    }
    found = [f"{slot}={type(part).__name__}" for slot, (part, fine) in slots.items() if not fine]
    found += _of_the_search(local.step) if isinstance(local.step, LineSearch) else []
    return found + [f"terms={type(t).__name__}" for t in local.terms if not isinstance(t, L2)]


def _of_the_search(step: LineSearch) -> list[str]:
    """Parts of a search for which `smallest_step` is not proved: every search must begin at `low` or above, on a grid."""
    grown = isinstance(step.reset, Keep | Restart) or (
        isinstance(step.reset, Grow) and step.reset.factor >= 1
    )
    parts = {
        "condition": (step.condition, isinstance(step.condition, Armijo)),
        "reference": (step.reference, isinstance(step.reference, Current)),
        "reset": (step.reset, grown),
        "proposal": (step.proposal, step.proposal is None),
        "cadence": (step.cadence, isinstance(step.cadence, Always)),
    }
    return [f"{name}={type(part).__name__}" for name, (part, fine) in parts.items() if not fine]


def strong_convexity(m: Measured, s: Setup | None) -> tuple[float | None, str]:
    """mu of the clients and where it is from; None: undefined."""
    convex = convexity(m)[0]
    if convex == NO:
        return None, "negative curvature was seen"
    if m.exact and m.lowest > 1e-9 * m.L:
        return m.lowest, "least curvature of a client or batch at the visited points"
    if s is not None and s.l2 > 0 and convex == YES:
        return s.l2, "weight of the L2 term: a lower bound"
    return (
        None,
        "a client or batch has a flat direction"
        if m.exact
        else "no L2 term, and the model is not tiny",
    )


def convexity(m: Measured) -> tuple[str, str]:
    """Whether the clients are convex, and how that is known."""
    if m.lowest < -(1e-7 if m.exact else 1e-2) * abs(m.L):
        return NO, f"curvature {m.lowest:.3g} was seen"
    if m.constant:
        return YES, "the same curvatures at every visited point: quadratic"
    if m.linear:
        return YES, "predictions linear in the parameters under a convex loss"
    return SEEN, f"least curvature seen {m.lowest:.3g}"


def interpolation(m: Measured) -> tuple[str, str]:
    """Whether one point minimises every client and batch."""
    gap, size = max(m.client_gap, m.batch_gap), max(m.curve.f[0] - m.least, 0.0)
    said = f"clients {m.client_gap:.3g}, batches {m.batch_gap:.3g} above their own minima"
    if gap <= 1e-8 * size:
        return YES, said
    if gap <= 1e-3 * size:
        return SEEN, said
    return (UNKNOWN if m.best is None else NO), said


def checks(m: Measured, s: Setup) -> dict[str, Check]:
    """The hypotheses of all theorems by name."""
    K, L, kappa = m.steps, m.L, m.kappa if m.kappa == m.kappa else 0.0
    limit, safe = (
        f(s.c, s.eta_g, K, L, kappa) for f in (bounds.step_limit, bounds.safe_step_limit)
    )
    top = bounds.kappa_limit(s.c, s.max_step)
    mu, why = strong_convexity(m, s)
    low_mean = m.lowest_mean
    mean_mu = low_mean > 1e-9 * L if low_mean == low_mean else None
    convex, said = convexity(m)
    common, gaps = interpolation(m)
    step = "by its rule" if s.extrapolates else f"{s.eta_g:g}"
    return {
        "convex": Check("convex", "every f_i convex", said, convex),
        "interpolation": Check(
            "interpolation", "one point minimises all clients and batches", gaps, common
        ),
        "c": Check("c", "c > 1/2", f"c = {s.c:g}", _word(s.c > 0.5)),
        "eta_g": Check(
            "eta_g", "0 < eta_g <= 1, or extrapolation", step, _word(s.extrapolates or s.eta_g <= 1)
        ),
        "failed": Check(
            "searches", "no failed search", f"{m.failed} failed", NO if m.failed else SEEN
        ),
        "mu": Check("mu", "mu > 0", why if mu is None else f"mu = {mu:.4g}", _word(mu is not None)),
        "mean_mu": Check(
            "mu of f",
            "mu of f > 0",
            "not measured: the model is not tiny" if mean_mu is None else f"mu = {low_mean:.4g}",
            UNKNOWN if mean_mu is None else _word(mean_mu),
        ),
        "limit": Check(
            "max_step",
            f"below (2c - eta_g) / (K L + 4 kappa) = {limit:.3g}",
            f"{s.max_step:g}",
            _word(s.max_step < limit),
        ),
        "safe": Check(
            "safe max_step",
            f"below (2c - eta_g) / (2 K L + 4 kappa) = {safe:.3g}",
            f"{s.max_step:g}",
            _word(s.max_step < safe),
        ),
        "kappa": Check(
            "kappa",
            f"below c / (2 max_step) = {top:.3g}",
            f"{m.kappa:.3g}",
            _word(not kappa >= top),
        ),
    }


def claims(m: Measured, s: Setup) -> list[Claim]:
    """Every bound with its measured counterpart; a bound that needs a number that is undefined is NaN."""
    K, T, L, D2 = m.steps, m.rounds, m.L, m.D2
    c_left = bounds.reduced_c(s.c, m.kappa if m.kappa == m.kappa else 0.0, s.max_step)
    c_left = c_left if c_left > 0 else nan
    low = bounds.smallest_step(L, s.c, s.start, s.shrink)
    mu = strong_convexity(m, s)[0]
    mu = nan if mu is None else mu
    mean_mu = m.lowest_mean if m.lowest_mean > 1e-9 * L else nan
    c = s.c if s.c > 0.5 else nan  # at 1/2 and below nothing is left of the decrease
    name, common = "FedExpSLS" if s.extrapolates else "FedSLS", ("convex", "interpolation", "eta_g")
    proved = (*common, "c", "failed")

    gap = m.curve.f_mean[-1] - (m.best.value if m.best else nan)
    far = m.curve.distance[-1]
    flat = (
        bounds.printed_convex(c_left, s.eta_g, K, L, s.max_step, T, D2),
        bounds.convex(c, s.eta_g, low, T, D2),
    )
    curved = (
        bounds.printed_strongly(mu, s.eta_g, K, s.max_step, T, D2),
        bounds.strongly(mu, s.eta_g, K, low, T, D2) if s.c > 0.5 else nan,
        bounds.strongly_in_the_mean(c, mean_mu, s.eta_g, low, T, D2),
    )
    value, distance = "f(w-bar) - f*", "|w_T - w*|^2"
    found = [
        Claim(f"{name}, convex", "printed", value, flat[0], gap, (*common, "limit", "kappa")),
        Claim(f"{name}, convex", "proved", value, flat[1], gap, proved),
        Claim(
            f"{name}, strongly convex",
            "printed",
            distance,
            curved[0],
            far,
            (*common, "mu", "safe", "kappa"),
        ),
        Claim(f"{name}, strongly convex", "proved", distance, curved[1], far, (*proved, "mu")),
        Claim(
            f"{name}, strongly convex mean",
            "proved",
            distance,
            curved[2],
            far,
            (*proved, "mean_mu"),
        ),
    ]
    if m.population == 1 and not s.extrapolates and s.eta_g == 1 and K == 1:
        sgd, theorem = ("convex", "interpolation", "c"), "SGD, Theorem 1"
        found.append(
            Claim(theorem, "printed", value, bounds.printed_sgd(c, s.max_step, T, D2), gap, sgd)
        )
        found.append(
            Claim(theorem, "proved", value, bounds.sgd(c, low, T, D2), gap, (*sgd, "failed"))
        )
    return found


def lemmas(m: Measured, s: Setup) -> list[Claim]:
    """The lemmas behind the theorems, each at the visited point or round where it is nearest to its bound."""
    low, f = bounds.smallest_step(m.L, s.c, s.start, s.shrink), m.curve.f
    gaps = {t: max(f[t] - m.least, 0.0) for t in range(len(f))}
    pairs = {
        ("lemma: gradients", "mean |grad f_i|^2"): [
            (bounds.gradients(s.c, low, gaps[p.round]), p.slopes) for p in m.points
        ],
        ("lemma: drift by steps", "mean |x_k - w|^2"): [
            (look.limit, look.drift) for look in m.looks
        ],
        ("lemma: drift by f", "mean |x_k - w|^2"): [
            (bounds.drift(s.c, m.steps, s.max_step, gaps[look.round]), look.drift)
            for look in m.looks
            if m.full_gradients and m.full_rounds
        ],
    }
    found = []
    for (name, on), each in pairs.items():
        usable = [(bound, value) for bound, value in each if value > 0 and bound > 0]
        if usable:
            bound, value = max(usable, key=lambda pair: pair[1] / pair[0])
            found.append(
                Claim(name, "proved", on, bound, value, ("failed",) if "drift" in name else ())
            )
    return found


def _word(holds: bool) -> str:
    return YES if holds else NO
