"""Measured constants against derived ones, and the verdicts that follow from them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedstep import InputError, build, zoo
from fedstep.analysis.theory.claims import claims
from fedstep.analysis.theory.curvature import spectrum
from fedstep.analysis.theory.findings import (
    Finding,
    finding_grids,
    finding_notes,
    finding_record,
)
from fedstep.analysis.theory.hypotheses import NO, YES, checks, not_covered
from fedstep.analysis.theory.lemmas import lemmas
from fedstep.analysis.theory.measure import measure
from fedstep.analysis.theory.minimum import minimise
from fedstep.analysis.theory.setup import Setup
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Store, Task
from fedstep.models.function import FunctionModel
from fedstep.report.render import render
from fedstep.report.theory_page import theory_page
from fedstep.run.simulate import Simulation
from fedstep.steps.resets import Restart

Q = np.array(
    [
        np.diag([1.0, 2.0, 4.0]),
        np.diag([2.0, 1.0, 3.0]),
        [[2, 0.5, 0], [0.5, 1.5, 0.2], [0, 0.2, 3]],
    ]
)
SAME = np.tile([1.0, -1.0, 2.0], (3, 1))
APART = np.array([[1.0, -1.0, 2.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])


def quadratics(algorithm, Q=Q, m=SAME, w0=None, K=2):
    """Clients 1/2 (w - m_i)' Q_i (w - m_i), all in every round, with full gradients."""
    w0 = np.zeros(len(m[0])) if w0 is None else w0

    def loss(x, batch):
        r = x - batch.targets
        return (r * (batch.inputs @ r.unsqueeze(-1)).squeeze(-1)).sum(-1) / 2

    clients = [(torch.tensor(q)[None], torch.tensor(c)[None]) for q, c in zip(Q, m, strict=True)]
    task = Task(
        algorithm,
        FunctionModel(loss, torch.tensor(w0)),
        Federation.of(clients),
        Plan(1, K, order=InOrder()),
    )
    return Simulation(task, len(clients), executor=Cohort())


def fedsls(c=0.8, max_step=0.05, server_step=1.0):
    return zoo.fedsls(c, max_step, 0.9, Restart(), server_step)


def verdicts(algorithm, rounds=3, **more):
    m = measure(quadratics(algorithm, **more), rounds, 2, 64)
    s = Setup.of(algorithm)
    return {name: check.holds for name, check in checks(m, s).items()}


def test_smoothness_and_strong_convexity_are_those_of_the_matrices():
    m = measure(quadratics(fedsls()), 4, 3, 64)
    spectra = np.linalg.eigvalsh(Q)
    assert m.smooth["clients"] == pytest.approx(4.0, rel=1e-12)
    assert m.smooth["batches"] == pytest.approx(4.0, rel=1e-12)
    assert m.lowest == pytest.approx(spectra.min(), rel=1e-12)
    assert m.lowest_mean == pytest.approx(np.linalg.eigvalsh(Q.mean(0))[0], rel=1e-12)
    assert m.exact
    assert m.constant


def test_smoothness_along_the_steps_is_that_of_a_parabola():
    m = measure(
        quadratics(fedsls(), np.full((1, 1, 1), 3.0), np.zeros((1, 1)), np.ones(1)), 2, 2, 64
    )
    assert m.smooth["steps"] == pytest.approx(3.0, rel=1e-9)
    wide = measure(quadratics(fedsls()), 4, 3, 64).smooth["steps"]
    assert 1.0 <= wide <= 4.0 * (1 + 1e-9)  # some direction's curvature: never above L


def test_a_search_that_had_to_shrink_proves_a_smoothness():
    # 3 w^2 / 2, c = 0.6: steps up to 0.8 / 3 = 0.267 pass. 0.9^13 = 0.254 is taken, 0.9^12 = 0.282 was refused: L >= 0.8 / 0.282
    alg = fedsls(0.6, 1.0)
    m = measure(quadratics(alg, np.full((1, 1, 1), 3.0), np.zeros((1, 1)), np.ones(1)), 1, 1, 64)
    assert m.smooth["searches"] == pytest.approx(0.8 / 0.9**12, rel=1e-12)
    calm = measure(
        quadratics(fedsls(0.6, 0.1), np.full((1, 1, 1), 3.0), np.zeros((1, 1)), np.ones(1)),
        1,
        1,
        64,
    )
    assert np.isnan(calm.smooth["searches"])  # accepted at once: nothing is proved


def test_minimum_gap_and_dissimilarity_are_the_derived_ones():
    m = measure(quadratics(fedsls(), m=APART), 3, 2, 64)
    best = np.linalg.solve(Q.sum(0), np.einsum("cij,cj->i", Q, APART))
    each = [(best - a) @ q @ (best - a) / 2 for q, a in zip(Q, APART, strict=True)]
    assert m.best.x.numpy() == pytest.approx(best, rel=1e-10)
    assert m.best.value == pytest.approx(np.mean(each), rel=1e-12)
    assert pytest.approx(best @ best, rel=1e-10) == m.D2
    assert m.client_gap == pytest.approx(np.mean(each), rel=1e-10)  # every f_i has minimum 0
    assert m.least == pytest.approx(0.0, abs=1e-20)

    points = [w for w, _ in _walk(quadratics(fedsls(), m=APART), 3)]
    grads = [np.einsum("cij,cj->ci", Q, w - APART) for w in (points[0], points[2], points[3])]
    squares = [((g**2).sum(1).mean(), (g.mean(0) ** 2).sum()) for g in grads]
    assert [p.round for p in m.points] == [0, 2, 3]
    assert pytest.approx(max(np.sqrt(a / b) for a, b in squares), rel=1e-10) == m.B
    assert pytest.approx(max(np.sqrt(a - b) for a, b in squares), rel=1e-10) == m.G


def _walk(sim, rounds):
    yield sim.task.model.init().numpy(), None
    yield from ((s.x.numpy(), row) for s, row in sim.run(sim.begin(rounds), Store(), rounds))


def test_watching_does_not_change_the_run():
    sim = quadratics(fedsls(), m=APART)
    m = measure(sim, 5, 3, 64)
    points = [w for w, _ in _walk(sim, 5)]
    f = [
        np.mean([(w - a) @ q @ (w - a) / 2 for q, a in zip(Q, APART, strict=True)]) for w in points
    ]
    assert m.curve.f == pytest.approx(f, rel=1e-12)
    mean = np.mean(points[:5], 0)
    at_mean = np.mean([(mean - a) @ q @ (mean - a) / 2 for q, a in zip(Q, APART, strict=True)])
    assert m.curve.f_mean[-1] == pytest.approx(at_mean, rel=1e-12)


def test_drift_is_the_mean_square_of_the_ways_from_the_anchor():
    # w^2 / 2 from 1 with step 0.1: x_k = 1, 0.9, 0.81; the squares of 0, 0.1, 0.19 have mean (0.01 + 0.0361) / 3
    m = measure(
        quadratics(zoo.fedavg(0.1), np.ones((1, 1, 1)), np.zeros((1, 1)), np.ones(1), K=3), 1, 1, 64
    )
    assert m.looks[0].drift == pytest.approx(0.0461 / 3, rel=1e-12)


def least_squares(algorithm, K=1):
    """Two clients of three samples, one sample a batch."""
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 3, 2)), rng.standard_normal((2, 3))
    model = FunctionModel(
        lambda x, batch: (batch.inputs @ x - batch.targets) ** 2, torch.zeros(2).double()
    )
    data = Federation.of([(torch.tensor(x), torch.tensor(y)) for x, y in zip(a, b, strict=True)])
    return Simulation(Task(algorithm, model, data, Plan(1, K, order=InOrder())), 2), a, b


def test_kappa_is_the_sum_of_differences_over_the_sum_of_squared_steps():
    sim, a, b = least_squares(zoo.fedavg(0.1))
    m = measure(sim, 1, 1, 64)
    noise = sum(abs(y[0] ** 2 - (y**2).mean()) for y in b)  # at w = 0 the loss of a sample is b^2
    energy = sum(0.1**2 * ((2 * y[0] * x[0]) ** 2).sum() for x, y in zip(a, b, strict=True))
    assert m.kappa == pytest.approx(noise / energy, rel=1e-12)


def test_kappa_leaves_failed_searches_out():
    # 1e-9 is never enough of a decrease with one trial far above 2 (1 - c) / L: every search fails
    sim, _, _ = least_squares(build("fedsls(step=LineSearch(max_step=1000.0, trials=1))"))
    m = measure(sim, 1, 1, 64)
    assert m.failed == 2
    assert np.isnan(m.kappa)


def test_all_hypotheses_hold_where_they_should():
    assert set(verdicts(fedsls(0.8, 0.03)).values()) <= {YES, "as far as seen"}


@pytest.mark.parametrize(("c", "holds"), [(0.51, YES), (0.5, NO), (0.1, NO)])
def test_the_verdict_on_c_flips_at_one_half(c, holds):
    assert verdicts(fedsls(c, 0.001))["c"] == holds


@pytest.mark.parametrize(("part", "holds"), [(0.999, YES), (1.001, NO)])
def test_the_verdicts_on_max_step_flip_at_their_limits(part, holds):
    limit = (2 * 0.8 - 1) / (2 * 4)  # K = 2, L = 4, kappa = 0
    assert verdicts(fedsls(0.8, part * limit))["limit"] == holds
    assert verdicts(fedsls(0.8, part * limit / 2))["safe"] == holds


@pytest.mark.parametrize(("server_step", "holds"), [(1.0, YES), (1.01, NO)])
def test_the_verdict_on_the_server_step_flips_at_one(server_step, holds):
    assert verdicts(fedsls(0.8, 0.01, server_step))["eta_g"] == holds


def test_clients_with_different_minimisers_do_not_interpolate():
    assert verdicts(fedsls())["interpolation"] == YES
    assert verdicts(fedsls(), m=APART)["interpolation"] == NO


def test_noise_above_its_limit_is_seen():
    sim, _, _ = least_squares(zoo.fedsls(0.6, 0.5, reset=Restart()))
    m, s = measure(sim, 1, 1, 64), Setup.of(sim.task.algorithm)
    assert m.kappa > s.c / (2 * s.max_step)
    assert checks(m, s)["kappa"].holds == NO
    calm = replace(s, max_step=s.c / (2 * m.kappa) * 0.99)
    assert checks(m, calm)["kappa"].holds == YES


def test_a_client_that_curves_down_is_not_convex():
    saddle = np.array([np.diag([1.0, -0.5]), np.diag([1.0, 1.0])])
    m = measure(quadratics(fedsls(), saddle, np.zeros((2, 2)), np.ones(2)), 1, 1, 64)
    found = checks(m, Setup.of(fedsls()))
    assert found["convex"].holds == NO
    assert found["mu"].holds == NO


def test_a_flat_client_leaves_mu_undefined_and_the_mean_may_still_have_one():
    flat = np.array([np.diag([1.0, 0.0]), np.diag([0.0, 3.0])])
    found = verdicts(fedsls(), Q=flat, m=np.zeros((2, 2)), w0=np.ones(2))
    assert (found["mu"], found["mean_mu"]) == (NO, YES)


def test_an_l2_term_counts_towards_curvature_and_value():
    alg = build("fedsls(terms=L2(weight=0.5))")
    flat = np.array([np.diag([1.0, 0.0]), np.diag([0.0, 3.0])])
    m = measure(quadratics(alg, flat, np.zeros((2, 2)), np.ones(2)), 1, 1, 64)
    assert m.smooth["clients"] == pytest.approx(3.5)
    assert m.lowest == pytest.approx(0.5)
    assert m.curve.f[0] == pytest.approx((1 + 3) / 4 + 0.5 / 2 * 2)


def test_the_printed_bound_is_seen_broken_with_all_its_hypotheses_met_and_the_proved_one_is_not():
    # docs/paper.md: w^2 / 2, one client, K = 1, c = 0.99, eta_max a little below 0.49
    alg = fedsls(0.99, 0.485)
    m = measure(quadratics(alg, np.ones((1, 1, 1)), np.zeros((1, 1)), np.ones(1), K=1), 60, 3, 64)
    s = Setup.of(alg)
    known, said = checks(m, s), claims(m, s)
    of = {(c.theorem, c.form): c for c in said}
    for theorem in ("FedSLS, convex", "FedSLS, strongly convex"):
        printed, proved = of[theorem, "printed"], of[theorem, "proved"]
        assert not printed.broken(known)
        assert not proved.broken(known)
        assert printed.ratio > 2
        assert 0 < proved.ratio <= 1
    first = of["SGD, Theorem 1", "printed"]
    assert not first.broken(known)
    assert first.ratio > 2
    rows = finding_grids(Finding("x", "x", 0, alg, m))[2].rows
    assert any("the bound is broken" in row[-1] and row[1] == "printed, false" for row in rows)


def test_bounds_are_kept_where_hypotheses_hold():
    for alg in (
        fedsls(0.8, 0.03),
        fedsls(0.6, 5.0, 0.5),
        zoo.fedexpsls(0.8, 0.03, reset=Restart(), eps=0.0),
    ):
        m = measure(quadratics(alg), 10, 3, 64)
        s = Setup.of(alg)
        known = checks(m, s)
        for claim in (*claims(m, s), *lemmas(m, s)):
            if not claim.broken(known):
                assert claim.ratio <= 1, claim


def test_the_drift_lemma_from_the_decreases_is_tight_on_a_parabola_at_the_longest_step():
    # the largest acceptable step makes Armijo's condition an equality, and Cauchy's is one for K = 2
    alg = zoo.fedsls(0.6, 100.0, 0.9, Restart(), largest=True)
    m = measure(quadratics(alg, np.ones((1, 1, 1)), np.zeros((1, 1)), np.ones(1), K=2), 1, 1, 64)
    (claim,) = (c for c in lemmas(m, Setup.of(alg)) if c.theorem == "lemma: drift by steps")
    assert 0.98 < claim.ratio <= 1


def test_a_method_outside_the_theorems_is_measured_and_bounded_by_nothing():
    alg = build("fedsls(server=Adaptive(moment=Average()), terms=Proximal())")
    assert not_covered(alg) == ["server=Adaptive", "terms=Proximal"]
    found = Finding("mixed", "mixed", 0, alg, measure(quadratics(alg), 2, 2, 64))
    assert [g.title for g in finding_grids(found)] == ["Measured"]
    assert "do not cover this method: server=Adaptive, terms=Proximal" in finding_notes(found)[0]
    assert finding_record(found)["bounds"] == []
    assert "<h2>mixed</h2>" in render(theory_page("title", [found]))


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("fedsls", []),
        ("fedexpsls(reset=Keep())", []),
        ("fedavg", ["step=Constant"]),
        ("fedsls(condition=Goldstein())", ["condition=Goldstein"]),
        ("fedsls(reference=Grippo(), reset=Grow(factor=0.5))", ["reference=Grippo", "reset=Grow"]),
        ("fedsls_lean", ["reset=Fitted", "proposal=Parabola"]),
        ("fedsls_momentum", ["move=Inertia"]),
        (
            "fedsls(correction=MeanControl(), codec=TopK())",
            ["correction=MeanControl", "codec=TopK"],
        ),
    ],
)
def test_what_leads_outside_the_theorems_is_named(text, reasons):
    assert not_covered(build(text)) == reasons


def test_a_sample_of_clients_is_said_to_be_one():
    m = measure(quadratics(fedsls()), 2, 2, 2)
    assert m.clients == 2
    assert any(
        "a sample of 2 of the 3 clients" in n
        for n in finding_notes(Finding("x", "x", 0, fedsls(), m))
    )


def test_lanczos_finds_the_top_of_a_large_spectrum_from_below():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((120, 120)))[0]
    matrix = torch.tensor(basis @ np.diag(np.linspace(0, 1, 120) ** 3 * 7 - 1) @ basis.T)
    found = spectrum(lambda x: x @ matrix @ x / 2, torch.zeros(120).double())
    assert not found.exact
    assert 5.7 < found.high <= 6.0
    assert -1.0 <= found.low < -0.9


def test_minimum_of_a_flat_quadratic_is_the_nearest():
    matrix = torch.diag(torch.tensor([2.0, 0.0])).double()
    found = minimise(lambda x: x @ matrix @ x, torch.tensor([3.0, 5.0]).double())
    assert found.x.tolist() == pytest.approx([0.0, 5.0])


def test_minimum_of_a_large_problem_is_found():
    g = torch.Generator().manual_seed(0)
    a, y = torch.randn(300, 80, generator=g).double(), torch.rand(300, generator=g).double()

    def f(x):
        return torch.nn.functional.binary_cross_entropy_with_logits(a @ x, y)

    found = minimise(f, torch.zeros(80).double(), 100)
    assert found.slope < 1e-6
    assert found.value < float(f(torch.zeros(80).double()))


@pytest.mark.parametrize("word", ["rounds", "points", "clients"])
def test_numbers_below_one_are_refused(word):
    given = {"rounds": 1, "points": 1, "most": 1, ("most" if word == "clients" else word): 0}
    with pytest.raises(InputError, match=f"--{word} 0: give at least 1"):
        measure(quadratics(fedsls()), **given)


def fedstep(*words, cwd):
    call = [sys.executable, "-m", "fedstep.cli", *map(str, words)]
    return subprocess.run(call, capture_output=True, text=True, cwd=cwd)


def test_the_command_prints_tables_and_writes_its_files(tmp_path):
    done = fedstep(
        "theory",
        "toy",
        "--rounds",
        3,
        "--method",
        "FedSLS",
        "--method",
        "fedsls(c=0.6)",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    for word in ("Measured", "Hypotheses", "Bounds", "L of clients", "proved", "printed, false"):
        assert word in done.stdout
    assert "FedSLS 3/3" in done.stderr
    kept = json.loads((tmp_path / "results/toy/theory.json").read_text())
    first, second = kept["methods"]
    assert (first["label"], second["spec"]) == ("FedSLS", "fedsls(c=0.6)")
    assert first["constants"]["L"]["clients"] == pytest.approx(10.0)
    assert first["hypotheses"]["c"]["holds"] == "no"
    assert second["hypotheses"]["c"]["holds"] == "yes"
    assert len(first["curve"]["f"]) == 4
    page = (tmp_path / "results/toy/theory.html").read_text()
    assert "<h3>Hypotheses</h3>" in page


STUDY = """
data = "synthetic"
model = "mlp(inputs=40, hidden=4, classes=10)"
partition = "Dirichlet(alpha=0.5, clients=6)"
rounds = 2
per_round = 3
steps = 2
batch = 20
seeds = [4]
[[methods]]
label = "FedAvg"
spec = "fedavg(step={step})"
grid = { step = [0.01, 0.1] }
[[methods]]
label = "FedExpSLS"
spec = "fedexpsls"
"""


def test_the_command_measures_every_line_search_of_a_study_by_default(tmp_path):
    (tmp_path / "mine.toml").write_text(STUDY)
    done = fedstep("theory", "mine.toml", "--points", 2, "--out", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (only,) = json.loads((tmp_path / "here/theory.json").read_text())["methods"]
    assert (only["label"], only["seed"], only["rounds"]) == ("FedExpSLS", 4, 2)
    assert "Clients and batches are sampled" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "fedstep: unknown study 'nothing'"),
        (["mine.toml", "--rounds", "0"], "fedstep: --rounds 0: give at least 1"),
        (
            ["mine.toml", "--method", "FedExpSL"],
            "unknown label 'FedExpSL': did you mean FedExpSLS?",
        ),
        (["mine.toml", "--method", "fedsls(d=1)"], "unknown argument of fedsls 'd'"),
        (["mine.toml", "--method", "FedAvg"], "method FedAvg has a grid and is not tuned yet"),
    ],
)
def test_bad_input_is_one_line(tmp_path, words, message):
    (tmp_path / "mine.toml").write_text(STUDY)
    done = fedstep("theory", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "results").exists()
