"""What is run for each definition, lemma, theorem and remark of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch

from fedstep.analysis.theory import bounds
from fedstep.analysis.theory.instances import (
    LeastSquares,
    Path,
    Quadratics,
    parabola,
    random_quadratics,
)
from fedstep.server.rules import Extrapolate, Step

HOLDS, VACUOUS, FALSE = "holds", "vacuous", "false"
ROUNDING = 1e-6  # relative: the largest acceptable step is known to 1e-8
ONE = "f(w) = w^2/2, w_0 = 1, one client, K = 1"
RANDOM = "3 random problems of 3 quadratic clients, c = 0.6, eta_max = 1, K = 4, T = 2"


class Inequality(NamedTuple):
    """Two numbers, of which the statement asks left <= right."""

    what: str
    left: float
    right: float

    @property
    def kept(self) -> bool:
        return self.left <= self.right * (1 + ROUNDING)

    @property
    def numbers(self) -> str:
        sign = "<=" if self.kept else ">"
        return f"{self.left:.4g} {sign} {self.right:.4g}"


class Premise(NamedTuple):
    """A hypothesis on the instance, and whether it is met."""

    what: str
    met: bool


@dataclass(frozen=True)
class Evidence:
    """A run, and the verdict that it supports if it comes out as expected."""

    shows: str  # FALSE: every inequality is broken; HOLDS, VACUOUS: every one is kept
    instance: str
    inequalities: Sequence[Inequality]
    premises: Sequence[Premise] = ()  # all must be met

    @property
    def verdict(self) -> str:
        expected = all(pair.kept == (self.shows != FALSE) for pair in self.inequalities)
        if expected and all(premise.met for premise in self.premises):
            return self.shows
        return "not confirmed"


def client_interpolation() -> Evidence:
    """A client may interpolate where its samples do not."""
    pair = _opposed()
    gap = float(pair.losses(pair.best).mean())  # every sample has minimum 0
    return Evidence(
        HOLDS,
        "one client with the samples (w - 1)^2/2 and (w + 1)^2/2, at w* = 0",
        [
            Inequality("0, against the samples' mean f_xi(w*) - min f_xi", 0.0, gap),
            Inequality("the client's f_i(w*) - min f_i, against 0", pair.gap(pair.best), 0.0),
        ],
    )


def armijo_condition() -> Evidence:
    """Every step that was taken is evaluated anew."""
    notes = [note for _, path in _random_paths() for note in path.notes]
    ratio = max(0.6 * note.gain / float(note.f - note.phi(note.after)) for note in notes)
    what = "largest c eta |g|^2 / (f(w_{k-1}) - f(w_k)), against 1"
    return Evidence(HOLDS, RANDOM, [Inequality(what, ratio, 1.0)])


def accuracy_at_a_minimiser() -> Evidence:
    """Without sample-wise interpolation kappa_f is above twice its limit at a minimiser."""
    pair = _opposed().noise(torch.zeros(1).double(), c=0.6, max_step=0.1)
    limit = bounds.kappa_limit(0.6, 0.1)
    problems = [LeastSquares.random(seed, spread=1.0) for seed in range(20)]
    kappas = [problem.noise(problem.best, c=0.3, max_step=1.0).kappa for problem in problems]
    least = min(kappas) / bounds.kappa_limit(0.3, 1.0)
    return Evidence(
        VACUOUS,
        "the samples (w - 1)^2/2 and (w + 1)^2/2 at w = 0, c = 0.6, eta_max = 0.1; "
        "20 random least squares at their minimisers, c = 0.3, eta_max = 1",
        [
            Inequality("least squares: 2, against the least kappa_f / limit", 2.0, least),
            Inequality("kappa_f at w_{k-1} alone, against its limit", pair.before, limit),
            Inequality("the limit, against kappa_f at both points", limit, pair.kappa),
        ],
    )


def accuracy_under_interpolation() -> Evidence:
    """Two samples with one minimiser, and kappa_f at twice its limit or more."""
    pair = LeastSquares(torch.eye(2).double(), torch.zeros(2).double())
    w = torch.tensor([1.0, 0.0]).double()
    least = min(
        pair.noise(w, c, max_step).kappa / bounds.kappa_limit(c, max_step)
        for c in (percent / 100 for percent in range(1, 100))
        for max_step in (0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0)
    )
    return Evidence(
        FALSE,
        "one client with the samples w_1^2/2 and w_2^2/2, at w = (1, 0), "
        "c = 0.01 .. 0.99, eta_max = 0.01 .. 100",
        [Inequality("least kappa_f / limit, against 1", least, 1.0)],
        [Premise("sample-wise interpolation at w* = 0", not pair.losses(0 * w).any())],
    )


def heterogeneity() -> Evidence:
    """The sum over two equal clients, against a bound that is right for one."""
    problem = parabola(clients=2)
    bound = bounds.heterogeneity_bound(0.5, 0.5, problem.L, 1.0, problem.f(problem.w0))
    slopes = float((problem.Q @ problem.w0).square().sum())
    inequality = Inequality("sum_i |grad f_i(w)|^2", slopes, bound)
    instance = "f_1 = f_2 = w^2/2, w = 1, c = 1/2, eta_max = 1"
    return _counterexample(instance, [inequality], [(0.5, None, 1.0)], problem)


def average_decrease() -> Evidence:
    """A flat function, whose steps are longer than 1."""
    problem = parabola(curvature=0.1)
    path = problem.run(0.5, 10.0, 1, 1)
    decrease = problem.f(path.points[0]) - problem.f(path.points[1])
    asked = 0.5 * path.notes[0].energy
    inequality = Inequality("c' eta^2 |g|^2, against f(w_{k-1}) - f(w_k)", asked, decrease)
    instance = "f(w) = w^2/20, w_{k-1} = 1, c = 1/2, eta_max = 10"
    return _counterexample(instance, [inequality], [(0.5, None, 10.0)], problem)


def step_sizes() -> Evidence:
    """Every step that was taken, against the smallest that is possible."""
    ratio = max(
        bounds.smallest_step(problem.L, 0.6, 1.0) / float(note.out.step)
        for problem, path in _random_paths()
        for note in path.notes
    )
    what = "largest min(eta_max, 2 (1 - c)/L) / eta_k, against 1"
    return Evidence(HOLDS, RANDOM, [Inequality(what, ratio, 1.0)])


def client_drift() -> Evidence:
    """Every round's mean over clients and steps, against the bound."""
    ratio = 0.0
    for problem, path in _random_paths():
        for t, start in enumerate(path.points[:-1]):
            notes = path.notes[12 * t : 12 * (t + 1)]  # three clients, four steps each
            drift = sum(float((note.x - start).square().sum()) for note in notes) / 12
            ratio = max(ratio, drift / bounds.drift_bound(0.6, 4, 1.0, problem.f(start)))
    return Evidence(HOLDS, RANDOM, [Inequality("largest drift / bound, against 1", ratio, 1.0)])


def sgd_convex() -> Evidence:
    """eta_max is where a search begins, not where it ends."""
    c, max_step, problem = 0.6, 1000.0, parabola()
    bound = bounds.sgd_convex_bound(c, max_step, 1, 1.0)
    means = _means(problem, problem.run(c, max_step, 1, 1), bound)
    instance = f"{ONE}, c = {c}, eta_max = {max_step:g}, one step"
    return _counterexample(instance, means, [(c, None, max_step)])


def sgd_nonconvex() -> Evidence:
    """The first gradient is above the bound for one step."""
    c, max_step, problem = 0.6, 1.0, parabola()
    bound = bounds.sgd_nonconvex_bound(c, problem.L, max_step, 1, problem.f(problem.w0))
    inequality = Inequality("|grad f(w_0)|^2", problem.slope(problem.w0), bound)
    instance = f"{ONE}, c = {c}, eta_max = {max_step:g}, one step"
    return _counterexample(instance, [inequality], [(c, None, max_step)])


def fedsls_convex() -> Evidence:
    """Steps shrink with 1 - c, the bound does not."""
    c, eta_g, max_step, T, problem = 0.99, 1.0, 0.49, 60, parabola()
    bound = bounds.fedsls_convex_bound(c, eta_g, 1, problem.L, max_step, T, 1.0)
    means = _means(problem, problem.run(c, max_step, 1, T, Step(eta_g)), bound)
    instance = f"{ONE}, c = {c}, eta_g = {eta_g:g}, eta_max = {max_step}, T = {T}"
    return _counterexample(instance, means, [(c, eta_g, max_step)])


def fedsls_strongly_convex() -> Evidence:
    """The same; the second eta_max is below the limit with its factor 2, too: 0.49."""
    T, problem = 60, parabola()
    settings = [(0.85, 0.1, 1.59), (0.99, 1.0, 0.48)]
    inequalities = []
    for c, eta_g, max_step in settings:
        end = problem.run(c, max_step, 1, T, Step(eta_g)).points[-1]
        bound = bounds.strongly_convex_bound(problem.mu, eta_g, 1, max_step, T, 1.0)
        name = f"|w_T - w*|^2, c = {c}, eta_g = {eta_g:g}, eta_max = {max_step}"
        inequalities.append(Inequality(name, float(end @ end), bound))
    return _counterexample(f"{ONE}, T = {T}", inequalities, settings)


def fedsls_nonconvex() -> Evidence:
    """The same; the right side has no T."""
    c, eta_g, max_step, T, problem = 0.999, 0.1, 0.5, 68, parabola()
    points = problem.run(c, max_step, 1, T, Step(eta_g)).points
    bound = bounds.nonconvex_bound(c, eta_g, 1, problem.L, max_step, problem.f(problem.w0))
    least = min(problem.slope(w) for w in points[:-1])
    inequality = Inequality("least |grad f(w_t)|^2, t < T", least, bound)
    instance = f"{ONE}, c = {c}, eta_g = {eta_g}, eta_max = {max_step}, T = {T}"
    return _counterexample(instance, [inequality], [(c, eta_g, max_step)])


def fedexpsls_convex() -> Evidence:
    """One client has eta_g = 1 whatever its clamp is, and the bound falls with the clamp."""
    problem = parabola()
    inequalities = []
    for c, max_step, T, clamp in ((0.99, 0.49, 60, 1.0), (0.75, 0.4, 1, 100.0)):
        path = problem.run(c, max_step, 1, T, Extrapolate(0.0, clamp))
        bound = bounds.fedsls_convex_bound(c, 1.0, 1, problem.L, max_step, T, 1.0) / clamp
        name = f"f(w-bar) - f*, c = {c}, eta_max = {max_step}, T = {T}, eta_gmax = {clamp:g}"
        inequalities.append(Inequality(name, problem.f(path.mean(0)), bound))
    return _counterexample(ONE, inequalities, [(0.99, 1.0, 0.49), (0.75, 1.0, 0.4)])


def fedexpsls_strongly_convex() -> Evidence:
    """The largest clamp that is allowed."""
    c, max_step, problem = 0.75, 0.4, parabola()
    clamp = 2 / (max_step * problem.mu)
    end = problem.run(c, max_step, 1, 1, Extrapolate(0.0, clamp)).points[-1]
    bound = bounds.strongly_convex_bound(problem.mu, clamp, 1, max_step, 2, 1.0)
    inequality = Inequality("|w_1 - w*|^2", float(end @ end), bound)
    what = f"{ONE}, c = {c}, eta_max = {max_step}, eta_gmax = 2/(eta_max mu K) = {clamp:g}, T = 1"
    return _counterexample(what, [inequality], [(c, 1.0, max_step)])


def fedexpsls_nonconvex() -> Evidence:
    """The smallest bound there is (K = 1, clamp 1), against what smoothness alone gives."""
    ratio = 0.0
    for seed in range(20):
        problem = random_quadratics(seed)
        gap = problem.f(problem.w0)
        bound = bounds.nonconvex_bound(0.999, 1.0, 1, problem.L, 1e-6, gap)
        ratio = max(ratio, problem.slope(problem.w0) / bound, 2 * problem.L * gap / bound)
    what = "larger of |grad f(w_0)|^2 and 2 L (f(w_0) - f*), over the bound, against 1"
    instance = "20 random quadratics, c = 0.999, K = 1, eta_gmax = 1, eta_max = 1e-6"
    return Evidence(VACUOUS, instance, [Inequality(what, ratio, 1.0)])


@cache
def _random_paths() -> list[tuple[Quadratics, Path]]:
    problems = [random_quadratics(seed) for seed in range(3)]
    return [(problem, problem.run(0.6, 1.0, 4, 2)) for problem in problems]


def _opposed() -> LeastSquares:
    return LeastSquares(torch.ones(2, 1).double(), torch.tensor([1.0, -1.0]).double())


def _counterexample(
    instance: str,
    inequalities: Sequence[Inequality],
    settings: Sequence[tuple[float, float | None, float]],  # c, eta_g (None: no limit), eta_max
    problem: Quadratics | None = None,
) -> Evidence:
    """With what the theorems ask for; full gradients have kappa_f = 0, so that c' = c."""
    if problem is None:
        problem = parabola()
    met = [
        Premise(f"convex, L = {problem.L:g}, mu = {problem.mu:g}", problem.mu > 0),
        Premise("client-wise interpolation at 0", problem.f(0 * problem.w0) == 0),
    ]
    for c, eta_g, max_step in settings:
        limit = bounds.kappa_limit(c, max_step)
        met.append(Premise(f"kappa_f = 0 < c / (2 eta_max) = {limit:.3g}", limit > 0))
        if eta_g is not None:
            limit = bounds.step_limit(c, eta_g, 1, problem.L, 0.0)
            what = f"eta_max = {max_step} < (2c - eta_g) / (K L + 4 kappa_f) = {limit:.3g}"
            met.append(Premise(what, max_step < limit))
    return Evidence(FALSE, instance, inequalities, met)


def _means(problem: Quadratics, path: Path, bound: float) -> list[Inequality]:
    """f at w-bar, as proved from t = 0 and as printed from t = 1."""
    return [
        Inequality(f"f(w-bar) - f*, w-bar from t = {first}", problem.f(path.mean(first)), bound)
        for first in (0, 1)
    ]
