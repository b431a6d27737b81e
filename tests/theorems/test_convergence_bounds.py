"""Convergence bounds, on instances that meet their hypotheses and on instances that do not.

Throughout f = mean_i f_i, all f_i convex and L-smooth with a common minimiser w* (interpolation), Armijo with constant
c > 1/2 and grid factor beta, D^2 = |w_0 - w*|^2, w-bar the mean of w_0 .. w_{T-1}, and low = min(eta_max, 2 beta (1 - c) / L)
the smallest step a search can end at (test_armijo.py). A search for the largest step has beta = 1.

One local step towards w*: Armijo gives eta |g|^2 <= (f_i(x) - f_i*) / c, mu-convexity <g, x - w*> >= f_i(x) - f_i* +
mu/2 |x - w*|^2, hence

    |x+ - w*|^2  <=  (1 - mu eta) |x - w*|^2 - eta (2 - 1/c) (f_i(x) - f_i*)                                              (1)

Vaswani et al. (2019), SGD: (1) summed over T steps, eta >= low, f at the mean, in expectation over the batches:

    E f(w-bar) - f*  <=  c D^2 / ((2c - 1) low T)          E |w_T - w*|^2  <=  (1 - mu low)^T D^2

They print c = 1/2 for the second, where 2 (1 - c) / L = 1 / L. With c = 0.9 and 1 / L it would be false (tested below).

FedSLS as printed, with full gradients (kappa = 0), eta_max < (2c - eta_g) / (K L):

    f(w-bar) - f*    <=  c D^2 / ((2c - eta_g - K L eta_max) eta_g eta_max K T)                                           (2)
    |w_T - w*|^2     <=  (1 - eta_g eta_max mu K / 2)^T D^2                                                               (3)

Both are false: steps shrink with 1 - c and the bounds do not know it (tested below, and for every theorem of the paper in
test_paper_theorems.py). What (1) does prove, for every eta_max: clients move towards w*, so does their mean, and keeping of the
local steps of each round only the first, which is taken at w_t,

    f(w-bar) - f*    <=  c D^2 / ((2c - 1) eta_g low T)                                   for 0 < eta_g <= 1              (4)
    |w_T - w*|^2     <=  (1 - eta_g (1 - (1 - mu low)^K))^T D^2                           for 0 < eta_g <= 1              (5)

FedExpSLS: eta_g |D|^2 <= mean |D_i|^2 / 2 where eta_g > 1, and 2 <D_i, w_t - w*> = |x_i - w*|^2 - |w_t - w*|^2 - |D_i|^2, so
|w_{t+1} - w*|^2 <= |w_t - w*|^2 + eta_g mean(|x_i - w*|^2 - |w_t - w*|^2): (2) to (5) with 1 for eta_g.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedstep import zoo
from fedstep.algorithm import Algorithm
from fedstep.core.types import Batch, Context
from fedstep.core.vec import norm_sq
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Store, Task
from fedstep.local.objective import Objective
from fedstep.local.oracles import Autograd
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.steps.conditions import Armijo
from fedstep.steps.resets import Keep, Restart
from fedstep.steps.search import LineSearch

Array = np.ndarray[Any, np.dtype[np.float64]]
BETA = 0.9
seeds = st.integers(0, 2**31)
some = settings(max_examples=6)


def low(L: float, c: float, max_step: float, beta: float = BETA) -> float:
    """The smallest step an Armijo search can end at."""
    return min(max_step, beta * 2 * (1 - c) / L)


# Quadratics f_i = 1/2 (w - m_i)' Q_i (w - m_i), one per client, with full gradients


@dataclass(frozen=True)
class Quadratics:
    """Clients' matrices and minimisers, and where to begin."""

    Q: Array
    m: Array
    w0: Array

    @property
    def smooth(self) -> float:
        return float(max(np.linalg.eigvalsh(q)[-1] for q in self.Q))

    @property
    def convex(self) -> float:
        return float(min(np.linalg.eigvalsh(q)[0] for q in self.Q))

    @property
    def best(self) -> Array:
        """A minimiser of the mean."""
        return np.linalg.lstsq(self.Q.sum(0), np.einsum("cij,cj->i", self.Q, self.m), rcond=None)[0]

    @property
    def D2(self) -> float:
        return float(((self.w0 - self.best) ** 2).sum())

    def f(self, w: Array) -> float:
        r = w - self.m
        return float(np.einsum("ci,cij,cj->c", r, self.Q, r).mean() / 2)

    def gap_of_mean(self, iterates: Array) -> float:
        return self.f(iterates[:-1].mean(0)) - self.f(self.best)

    def distance(self, iterates: Array) -> float:
        return float(((iterates[-1] - self.best) ** 2).sum())

    def run(self, algorithm: Algorithm, K: int, T: int) -> Array:
        """w_0 .. w_T of the library."""

        def loss(x: Tensor, batch: Batch) -> Tensor:
            r = x - batch.targets
            return (r * (batch.inputs @ r.unsqueeze(-1)).squeeze(-1)).sum(-1) / 2

        clients = [
            (torch.tensor(q)[None], torch.tensor(m)[None])
            for q, m in zip(self.Q, self.m, strict=True)
        ]
        model = FunctionModel(loss, torch.tensor(self.w0))
        task = Task(algorithm, model, Federation.of(clients), Plan(1, K, order=InOrder()))
        simulation = Simulation(task, len(clients), executor=Cohort())
        return np.stack(
            [self.w0, *(s.x.numpy() for s, _ in simulation.run(simulation.begin(T), Store(), T))]
        )


def quadratics(seed: int, convex: float = 0.05) -> Quadratics:
    """Two to four clients in two to four dimensions with a common minimiser; spectra of unequal size, from `convex` to 1 to 5."""
    rng = np.random.default_rng(seed)
    clients, dim = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    Q = []
    for _ in range(clients):
        basis = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        spectrum = np.exp(rng.uniform(np.log(0.05), 0.0, dim)) * rng.uniform(1, 5)
        spectrum[0] = convex
        Q.append(basis @ np.diag(spectrum) @ basis.T)
    return Quadratics(
        np.stack(Q), np.tile(rng.standard_normal(dim), (clients, 1)), 3 * rng.standard_normal(dim)
    )


def parabola(w0: float = 1.0) -> Quadratics:
    """w^2 / 2: L = mu = 1."""
    return Quadratics(np.ones((1, 1, 1)), np.zeros((1, 1)), np.array([w0]))


def clash() -> Quadratics:
    """No interpolation: minimisers 0 and 1 with curvatures 1 and 4. Begins at the minimiser 4/5 of the mean, so D = 0."""
    return Quadratics(np.array([[[1.0]], [[4.0]]]), np.array([[0.0], [1.0]]), np.array([0.8]))


def fedsls(c: float, max_step: float, server_step: float = 1.0) -> Algorithm:
    return zoo.fedsls(c, max_step, BETA, Restart(), server_step)


def fedexpsls(
    c: float, max_step: float, eps: float = 0.0, max_server_step: float = inf
) -> Algorithm:
    return zoo.fedexpsls(c, max_step, BETA, Restart(), eps, max_server_step)


def printed_convex(p: Quadratics, c: float, eta_g: float, K: int, max_step: float, T: int) -> float:
    return c * p.D2 / ((2 * c - eta_g - K * p.smooth * max_step) * eta_g * max_step * K * T)


def printed_strongly_convex(p: Quadratics, eta_g: float, K: int, max_step: float, T: int) -> float:
    return (1 - eta_g * max_step * p.convex * K / 2) ** T * p.D2


def proved_convex(p: Quadratics, c: float, eta_g: float, max_step: float, T: int) -> float:
    return c * p.D2 / ((2 * c - 1) * eta_g * low(p.smooth, c, max_step) * T)


def proved_strongly_convex(
    p: Quadratics, c: float, eta_g: float, K: int, max_step: float, T: int
) -> float:
    return (1 - eta_g * (1 - (1 - p.convex * low(p.smooth, c, max_step)) ** K)) ** T * p.D2


# SGD with Armijo steps (Vaswani et al., 2019)


@dataclass(frozen=True)
class Batches:
    """Least squares in equal batches, (m, B, d) and (m, B)."""

    inputs: Tensor
    targets: Tensor
    w0: Tensor

    @property
    def spectra(self) -> Tensor:
        return torch.linalg.eigvalsh(self.inputs.mT @ self.inputs / self.inputs.shape[1])

    @property
    def smooth(self) -> float:
        return float(self.spectra[:, -1].max())

    @property
    def best(self) -> Tensor:
        """The minimiser nearest to w_0."""
        a, y = self.inputs.flatten(0, 1), self.targets.flatten()
        return self.w0 + torch.linalg.pinv(a) @ (y - a @ self.w0)

    @property
    def D2(self) -> float:
        return float(norm_sq(self.w0 - self.best))

    def f(self, w: Tensor) -> Tensor:
        r = self.inputs.flatten(0, 1) @ w.mT - self.targets.flatten()[:, None]
        return (r**2).mean(0) / 2

    def paths(self, search: LineSearch, T: int) -> Tensor:
        """(T + 1, m^T, d): the iterates for every sequence of T batches, so that means over them are expectations."""
        order = torch.tensor(list(itertools.product(range(len(self.inputs)), repeat=T)))
        model = FunctionModel(lambda x, batch: (batch.inputs @ x - batch.targets) ** 2 / 2, self.w0)
        ctx, x = Context(self.w0, model), self.w0.expand(len(order), -1)
        state, points = search.init(x), [x]
        for k in range(T):
            fields = (self.inputs[order[:, k]], self.targets[order[:, k]])
            phi = Objective(ctx, Batch(fields, x.new_ones(len(x)), order[:, k]))
            f, g = Autograd()(phi, x)
            out, state = search.search(phi, x, f, g, -g, state)
            assert not out.failed.any()
            x = x - out.step[:, None] * g
            points.append(x)
        return torch.stack(points)


def least_squares(seed: int, batch: int, dim: int, noise: float = 0.0) -> Batches:
    """Three batches that one w fits exactly, unless there is noise."""
    rng = np.random.default_rng(seed)
    inputs = torch.tensor(rng.standard_normal((3, batch, dim)) * rng.uniform(0.5, 2.0, (3, 1, 1)))
    targets = inputs @ torch.tensor(rng.standard_normal(dim)) + noise * torch.tensor(
        rng.standard_normal((3, batch))
    )
    return Batches(inputs, targets, torch.tensor(2 * rng.standard_normal(dim)))


def armijo(c: float, max_step: float, largest: bool = False) -> LineSearch:
    return LineSearch(
        Armijo(c),
        Keep(),
        max_step=max_step,
        shrink=BETA,
        largest=largest,
        tolerance=1e-9,
        trials=1000,
    )


@some
@given(seeds, st.floats(0.55, 0.95), st.sampled_from([0.05, 1.0, 100.0]), st.booleans())
def test_sgd_with_armijo_steps_meets_vaswanis_convex_bound(
    seed: int, c: float, max_step: float, largest: bool
) -> None:
    # one sample a batch in five dimensions: convex, interpolating, not strongly convex. Restart: every search sees eta_max
    T, p = 5, least_squares(seed, 1, 5)
    points = p.paths(replace(armijo(c, max_step, largest), reset=Restart()), T)
    expected = float(p.f(points[:-1].mean(0)).mean())
    step = low(p.smooth, c, max_step, 1.0 if largest else BETA)
    assert expected <= c * p.D2 / ((2 * c - 1) * step * T) * (1 + 1e-8)


@some
@given(seeds, st.floats(0.5, 0.95), st.sampled_from([0.05, 1.0, 100.0]))
def test_sgd_with_armijo_steps_meets_the_strongly_convex_bound_on_every_path(
    seed: int, c: float, max_step: float
) -> None:
    # four samples a batch in two dimensions: every batch is strongly convex, so (1) contracts whatever is drawn
    T, p = 5, least_squares(seed, 4, 2)
    mu = float(p.spectra[:, 0].min())
    end = norm_sq(p.paths(replace(armijo(c, max_step), reset=Restart()), T)[-1] - p.best)
    assert float(end.max()) <= (1 - mu * low(p.smooth, c, max_step)) ** T * p.D2 * (1 + 1e-9)


@some
@given(seeds, st.sampled_from([0.05, 1.0, 100.0]))
def test_sgd_with_armijo_steps_meets_vaswanis_strongly_convex_bound_in_expectation(
    seed: int, max_step: float
) -> None:
    # as printed: c = 1/2, the largest step, mu the mean of the batches' constants, one of which is 0 here
    T, p = 5, least_squares(seed, 3, 2)
    p = replace(p, inputs=p.inputs.clone())
    p.inputs[0, :, 1] = 0.0
    p = replace(p, targets=p.inputs @ torch.tensor([1.0, -1.0], dtype=torch.float64))
    mu = float(p.spectra[:, 0].clamp(min=0).mean())
    end = norm_sq(
        p.paths(replace(armijo(0.5, max_step, largest=True), reset=Restart()), T)[-1] - p.best
    )
    bound = max(1 - mu / p.smooth, 1 - mu * max_step) ** T * p.D2
    assert float(end.mean()) <= bound * (1 + 1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_fedsls_with_one_client_and_many_batches_meets_the_strongly_convex_bound(seed: int) -> None:
    # one round of K shuffled batches is SGD with Armijo steps: the bound with T = K
    c, max_step, K, p = 0.6, 10.0, 12, least_squares(seed, 4, 2)
    model = FunctionModel(lambda x, batch: (batch.inputs @ x - batch.targets) ** 2 / 2, p.w0)
    data = Federation.of([(p.inputs.flatten(0, 1), p.targets.flatten())])
    # shuffled batches are other triples than p's own: constants over all subsets of four samples
    a = p.inputs.flatten(0, 1)
    subsets = torch.tensor(list(itertools.combinations(range(len(a)), 4)))
    spectra = torch.linalg.eigvalsh(a[subsets].mT @ a[subsets] / 4)
    mu, L = float(spectra[:, 0].min()), float(spectra[:, 1].max())
    simulation = Simulation(
        Task(zoo.fedsls(c, max_step, BETA, Restart()), model, data, Plan(4, K), seed=seed), 1
    )
    ((server, _),) = simulation.run(simulation.begin(1), Store(), 1)
    assert float(norm_sq(server.x - p.best)) <= (1 - mu * low(L, c, max_step)) ** K * p.D2


def test_vaswanis_convex_bound_needs_interpolation() -> None:
    # noisy targets, begun at the minimiser: D = 0, the bound is 0, and no batch wants to stay
    p = least_squares(0, 1, 2, noise=1.0)
    p = replace(p, w0=p.best)
    assert p.D2 < 1e-25
    points = p.paths(armijo(0.6, 1.0), 5)
    assert float((p.f(points[:-1].mean(0)) - p.f(p.best[None])).mean()) > 1e-4


def test_vaswanis_strongly_convex_bound_needs_interpolation() -> None:
    # begun a little away from the minimiser; every batch is strongly convex, but about a point of its own
    p, T = least_squares(0, 4, 2, noise=1.0), 5
    p = replace(p, w0=p.best + 1e-3)
    mu = float(p.spectra[:, 0].min())
    assert 0 < mu < p.smooth
    end = norm_sq(p.paths(armijo(0.5, 1.0, largest=True), T)[-1] - p.best)
    assert float(end.mean()) > max(1 - mu / p.smooth, 1 - mu) ** T * p.D2
    assert float(end.mean()) > p.D2


def test_vaswanis_strongly_convex_bound_needs_c_of_one_half() -> None:
    # 2-D, curvatures 1 and 0.1, w_0 = (1, 0), eta_max = 1.97. With c = 0.01 steps up to 2 (1 - c) = 1.98 are accepted:
    # w jumps to -0.97 w, 0.9409 a step, against max(1 - 0.1, 1 - 0.197) = 0.9. With c = 1/2 the step is 1: solved
    root = torch.tensor([1.0, 0.1], dtype=torch.float64).sqrt()
    two = torch.tensor(2.0, dtype=torch.float64)
    p = Batches(
        (two.sqrt() * root.diag())[None],
        torch.zeros(1, 2, dtype=torch.float64),
        torch.eye(2).double()[0],
    )
    assert p.spectra[0].tolist() == pytest.approx([0.1, 1.0])
    T = 10
    bound = max(1 - 0.1 / 1, 1 - 0.1 * 1.97) ** T
    greedy = p.paths(armijo(0.01, 1.97), T)[-1]
    assert float(norm_sq(greedy)) == pytest.approx(0.9409**T, rel=1e-9)
    assert float(norm_sq(greedy)) > bound
    assert float(norm_sq(p.paths(armijo(0.5, 1.97, largest=True), T)[-1])) <= bound


def test_the_rate_1_minus_mu_over_l_is_false_for_c_above_one_half() -> None:
    # w^2 / 2, c = 0.9, eta_max = 1: the largest step is 2 (1 - c) = 0.2, 0.64 a step; 1 - mu / L = 0 promises the solution
    p, T = parabola(), 5
    iterates = p.run(zoo.fedsls(0.9, 1.0, BETA, Restart(), largest=True), 1, T)
    assert p.distance(iterates) == pytest.approx(0.64**T, rel=0.02)
    assert p.distance(iterates) > max(1 - p.convex / p.smooth, 1 - p.convex * 1.0) ** T * p.D2
    assert p.distance(iterates) <= proved_strongly_convex(p, 0.9, 1.0, 1, 1.0, T)


# FedSLS


def test_the_bounds_of_fedsls_hold_on_the_worked_case() -> None:
    # Three clients, w* = (1, -1, 2), w_0 = 0: D^2 = 6; L = 4 (client 1), mu = 1 (clients 1 and 2).
    # c = 0.8, eta_g = 1, K = 1: eta_max < (1.6 - 1) / 4 = 0.15; 0.9 of it is 0.135. T = 40.
    Q = np.array(
        [
            np.diag([1.0, 2.0, 4.0]),
            np.diag([2.0, 1.0, 3.0]),
            [[2, 0.5, 0], [0.5, 1.5, 0.2], [0, 0.2, 3]],
        ]
    )
    p = Quadratics(Q, np.tile([1.0, -1.0, 2.0], (3, 1)), np.zeros(3))
    assert (p.smooth, p.convex, p.D2) == pytest.approx((4.0, 1.0, 6.0))
    iterates = p.run(fedsls(0.8, 0.135), 1, 40)

    # client 1, first step: g = (-1, 2, -8), |g|^2 = 69, g'Qg = 1 + 8 + 256 = 265; acceptable up to 2 * 0.2 * 69 / 265
    # = 0.104, so 0.135 * 0.9^3 = 0.0984. Client 2: g = (-2, 1, -6), 41, 8 + 1 + 108 = 117: 0.1402 > 0.135, at once.
    # Client 3: g = -Q (1, -1, 2) = (-1.5, 0.6, -5.8), 36.25, 4.5 - 0.9 + 0.54 - 1.392 + 100.92 = 103.668: 0.1399, at once.
    first = (
        0.135
        * (0.9**3 * np.array([1, -2, 8]) + np.array([2, -1, 6]) + np.array([1.5, -0.6, 5.8]))
        / 3
    )
    assert iterates[1] == pytest.approx(first, rel=1e-12)

    assert iterates[-1] == pytest.approx(
        [0.9998039727224131, -0.9996900329892262, 1.9999893577290264], rel=1e-12
    )
    assert p.gap_of_mean(iterates) == pytest.approx(0.052507414693180404, rel=1e-11)
    assert p.distance(iterates) == pytest.approx(1.3461949925766335e-07, rel=1e-8)

    # (2): 0.8 * 6 / ((1.6 - 1 - 4 * 0.135) * 0.135 * 40) = 4.8 / (0.06 * 5.4) = 14.8;  (3): (1 - 0.0675)^40 * 6 = 0.3665
    assert printed_convex(p, 0.8, 1.0, 1, 0.135, 40) == pytest.approx(4.8 / 0.324)
    assert printed_strongly_convex(p, 1.0, 1, 0.135, 40) == pytest.approx(0.9325**40 * 6)
    assert p.gap_of_mean(iterates) <= 4.8 / 0.324
    assert p.distance(iterates) <= 0.9325**40 * 6


ORACLE = (
    Path(__file__).resolve().parents[2].parent
    / "shared"
    / "oracles"
    / "theorem_bounds_derived.json"
)


@pytest.mark.parametrize("case", range(3))
def test_the_bounds_of_fedsls_hold_on_the_oracle_cases(case: int) -> None:
    if not ORACLE.exists():
        pytest.skip(f"no {ORACLE.name} beside the repository")
    oracle = json.loads(ORACLE.read_text())
    run = oracle["cases"][case]
    c, eta_g, K, max_step, T = (run[k] for k in ("c", "eta_g", "K", "eta_lmax", "T"))
    w_star, w0 = np.array(oracle["w_star"]), np.array(oracle["w0"], dtype=np.float64)
    p = Quadratics(np.array(oracle["Q"]), np.tile(w_star, (len(oracle["Q"]), 1)), w0)
    assert (p.smooth, p.convex) == pytest.approx((oracle["L"], oracle["mu"]))
    assert max_step < (2 * c - eta_g) / (K * p.smooth)
    iterates = p.run(fedsls(c, max_step, eta_g), K, T)
    assert iterates[-1] == pytest.approx(run["wT"], rel=1e-12)
    assert p.gap_of_mean(iterates) == pytest.approx(run["f_of_avg"], rel=1e-10)
    assert p.distance(iterates) == pytest.approx(run["dist_sq_T"], rel=1e-6)
    assert printed_convex(p, c, eta_g, K, max_step, T) == pytest.approx(
        run["bound_convex"], rel=1e-9
    )
    assert printed_strongly_convex(p, eta_g, K, max_step, T) == pytest.approx(
        run["bound_strongly_convex"], rel=1e-9
    )
    assert run["f_of_avg"] <= run["bound_convex"]
    assert run["dist_sq_T"] <= run["bound_strongly_convex"]


anything = (seeds, st.floats(0.55, 0.99), st.integers(1, 4), st.sampled_from([0.01, 1.0, 20.0]))


@some
@given(*anything, st.floats(0.1, 1.0))
def test_fedsls_meets_the_proved_convex_bound_for_any_max_step(
    seed: int, c: float, K: int, max_step: float, eta_g: float
) -> None:
    p, T = quadratics(seed, convex=0.0), 10
    iterates = p.run(fedsls(c, max_step, eta_g), K, T)
    assert p.gap_of_mean(iterates) <= proved_convex(p, c, eta_g, max_step, T)


@some
@given(*anything, st.floats(0.1, 1.0))
def test_fedsls_meets_the_proved_strongly_convex_bound_for_any_max_step(
    seed: int, c: float, K: int, max_step: float, eta_g: float
) -> None:
    p, T = quadratics(seed), 10
    iterates = p.run(fedsls(c, max_step, eta_g), K, T)
    assert p.distance(iterates) <= proved_strongly_convex(p, c, eta_g, K, max_step, T)


def test_the_printed_bounds_of_fedsls_are_false_for_c_near_one() -> None:
    # w^2 / 2, one client, K = 1, eta_g = 1, c = 0.99, eta_max = 0.49 < (2c - 1) / L = 0.98: every hypothesis is met, even the
    # safer (2c - 1) / (2 K L) = 0.49 up to equality. Steps up to 0.02 are acceptable; 0.49 * 0.9^31 = 0.0187 is taken, so
    # w_t = 0.9813^t. T = 60: w-bar = (1 - 0.9813^60) / (60 * 0.0187) = 0.604, f = 0.1825.
    # (2): 0.99 / (0.49 * 0.49 * 60) = 0.0687 < 0.1825.   (3): 0.755^60 = 4.8e-8 < 0.9813^120 = 0.104.
    p, c, max_step, T = parabola(), 0.99, 0.49, 60
    iterates = p.run(fedsls(c, max_step), 1, T)
    assert iterates[1, 0] == pytest.approx(1 - 0.49 * 0.9**31, rel=1e-12)
    assert p.gap_of_mean(iterates) == pytest.approx(0.1825, rel=1e-3)
    assert printed_convex(p, c, 1.0, 1, max_step, T) == pytest.approx(0.0687, rel=1e-3)
    assert p.gap_of_mean(iterates) > printed_convex(p, c, 1.0, 1, max_step, T)
    assert p.distance(iterates) > 1e6 * printed_strongly_convex(p, 1.0, 1, max_step, T)
    assert p.gap_of_mean(iterates) <= proved_convex(p, c, 1.0, max_step, T)
    assert p.distance(iterates) <= proved_strongly_convex(p, c, 1.0, 1, max_step, T)


def test_the_printed_strongly_convex_bound_of_fedsls_is_false_for_a_moderate_c() -> None:
    # w^2 / 2, c = 0.85, eta_g = 0.1, eta_max = 1.59 < (1.7 - 0.1) / 1. Steps up to 0.3 are acceptable; 1.59 * 0.9^16 = 0.2946 is
    # taken, so w_T = (1 - 0.02946)^60: 0.0277 squared, against (1 - 0.1 * 1.59 / 2)^60 = 0.0069
    p, T = parabola(), 60
    distance = p.distance(p.run(fedsls(0.85, 1.59, 0.1), 1, T))
    assert distance == pytest.approx((1 - 0.159 * 0.9**16) ** (2 * T), rel=1e-9)
    assert distance > printed_strongly_convex(p, 0.1, 1, 1.59, T)
    assert distance <= proved_strongly_convex(p, 0.85, 0.1, 1, 1.59, T)


def test_the_convex_bounds_of_fedsls_need_interpolation() -> None:
    p, c, K, T = clash(), 0.8, 5, 20
    assert p.D2 < 1e-25
    max_step = 0.9 * (2 * c - 1) / (K * p.smooth)
    gap = p.gap_of_mean(p.run(fedsls(c, max_step), K, T))
    assert gap > 1e-5
    assert gap > printed_convex(p, c, 1.0, K, max_step, T)
    assert gap > proved_convex(p, c, 1.0, max_step, T)


def test_the_strongly_convex_bounds_of_fedsls_need_interpolation() -> None:
    # Begun one away from w* = 4/5. eta_max = 0.9 * 0.6 / 20 = 0.027 < 2 (1 - c) / L = 0.1 is always accepted, so client i goes
    # the part a_i = 1 - (1 - 0.027 L_i)^5 of its way, and the run settles where a_1 w = a_2 (1 - w): not at w*
    p, c, K, T = replace(clash(), w0=np.array([1.8])), 0.8, 5, 200
    max_step = 0.9 * (2 * c - 1) / (K * p.smooth)
    iterates = p.run(fedsls(c, max_step), K, T)
    a1, a2 = 1 - 0.973**5, 1 - 0.892**5
    assert iterates[-1, 0] == pytest.approx(a2 / (a1 + a2), rel=1e-12)
    assert p.distance(iterates) > 1e-4 > printed_strongly_convex(p, 1.0, K, max_step, T)
    assert p.distance(iterates) > proved_strongly_convex(p, c, 1.0, K, max_step, T)


def test_the_strongly_convex_bound_of_fedsls_needs_a_large_c() -> None:
    # w^2 / 2, eta_g = 1: c = 0.01 < 1/2 lets 1.97 < 2 (1 - c) = 1.98 pass, 0.9409 a round; (3) with eta_max = 1.97: 0.015 a round
    p, T = parabola(), 10
    distance = p.distance(p.run(fedsls(0.01, 1.97), 1, T))
    assert distance == pytest.approx(0.9409**T, rel=1e-9)
    assert distance > printed_strongly_convex(p, 1.0, 1, 1.97, T)
    assert distance > proved_strongly_convex(p, 0.01, 1.0, 1, 1.97, T)


def test_the_strongly_convex_bound_of_fedsls_needs_a_small_max_step() -> None:
    # w^2 / 2, c = 0.6: eta_max < 0.2 is asked for. With 1.9 steps up to 0.8 pass, 1.9 * 0.9^9 = 0.736 is taken: 0.0697 a round
    # against 1 - 0.95 = 0.05
    p, T = parabola(), 10
    distance = p.distance(p.run(fedsls(0.6, 1.9), 1, T))
    assert distance == pytest.approx((1 - 1.9 * 0.9**9) ** (2 * T), rel=1e-9)
    assert distance > printed_strongly_convex(p, 1.0, 1, 1.9, T)
    assert distance <= proved_strongly_convex(p, 0.6, 1.0, 1, 1.9, T)


def test_the_convex_bound_of_fedsls_needs_a_small_max_step() -> None:
    # just under the limit (2c - 1) / (K L) = 0.2 the bound is large, above it negative: no gap is
    p, T = parabola(), 10
    for max_step, holds in ((0.19, True), (0.21, False)):
        gap = p.gap_of_mean(p.run(fedsls(0.6, max_step), 1, T))
        assert (gap <= printed_convex(p, 0.6, 1.0, 1, max_step, T)) is holds
        assert gap <= proved_convex(p, 0.6, 1.0, max_step, T)


# FedExpSLS


@some
@given(*anything, st.sampled_from([(0.0, inf), (0.0, 1.5), (1e-3, inf)]))
def test_fedexpsls_meets_the_proved_bounds_for_any_max_step_eps_and_clamp(
    seed: int, c: float, K: int, max_step: float, server: tuple[float, float]
) -> None:
    p, T = quadratics(seed), 10
    iterates = p.run(fedexpsls(c, max_step, *server), K, T)
    assert p.gap_of_mean(iterates) <= proved_convex(p, c, 1.0, max_step, T)
    assert p.distance(iterates) <= proved_strongly_convex(p, c, 1.0, K, max_step, T)


@some
@given(seeds, st.floats(0.55, 0.95), st.integers(1, 4), st.sampled_from([1.0, 20.0]))
def test_fedexpsls_under_interpolation_never_moves_away_from_the_minimiser(
    seed: int, c: float, K: int, max_step: float
) -> None:
    p = quadratics(seed, convex=0.0)
    iterates = p.run(fedexpsls(c, max_step), K, 10)
    distances = ((iterates - p.m[0]) ** 2).sum(1)
    assert (np.diff(distances) <= 1e-12 * distances[:-1]).all()


def test_the_bounds_of_fedexpsls_need_interpolation() -> None:
    # minimisers 0 and 1 of curvatures 1 and 4: the deltas cancel near w*, eta_g explodes
    p, c, K, T = replace(clash(), w0=np.array([0.8 + 1e-3])), 0.8, 5, 20
    max_step = 0.9 * (2 * c - 1) / (K * p.smooth)
    iterates = p.run(fedexpsls(c, max_step), K, T)
    assert p.gap_of_mean(iterates) > printed_convex(p, c, 1.0, K, max_step, T)
    assert p.gap_of_mean(iterates) > proved_convex(p, c, 1.0, max_step, T)
    assert p.distance(iterates) > p.D2


def test_the_strongly_convex_bound_of_fedexpsls_needs_a_large_c() -> None:
    # two equal clients w^2 / 2, so eta_g = 1 and the run is FedSLS's: 0.9409 a round for c = 0.01, against 0.015
    p, T = Quadratics(np.ones((2, 1, 1)), np.zeros((2, 1)), np.ones(1)), 10
    distance = p.distance(p.run(fedexpsls(0.01, 1.97), 1, T))
    assert distance == pytest.approx(0.9409**T, rel=1e-9)
    assert distance > printed_strongly_convex(p, 1.0, 1, 1.97, T)


def test_the_corrected_bounds_of_fedexpsls_are_false_for_c_near_one() -> None:
    # one client: eta_g = 1, FedSLS's counterexample
    p, c, max_step, T = parabola(), 0.99, 0.49, 60
    iterates = p.run(fedexpsls(c, max_step), 1, T)
    assert p.gap_of_mean(iterates) > printed_convex(p, c, 1.0, 1, max_step, T)
    assert p.distance(iterates) > printed_strongly_convex(p, 1.0, 1, max_step, T)
    assert p.gap_of_mean(iterates) <= proved_convex(p, c, 1.0, max_step, T)
