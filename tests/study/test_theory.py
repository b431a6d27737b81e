"""`fedstep theory`: kappa_f, L and the limits of a run against derived ones, and the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
import torch

from fedstep import InputError, build, zoo
from fedstep.analysis.theory.measure import measure
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Store, Task
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.steps.resets import Restart


def scalar(algorithm, *clients, K=1, start=0.0):
    """Every client has samples (a, b) with the loss a (w - b)^2 / 2; one sample a batch, in order."""
    model = FunctionModel(
        lambda x, batch: batch.inputs[:, 0] * (x - batch.targets) ** 2 / 2,
        torch.tensor([start]).double(),
    )
    data = [torch.tensor(samples).double() for samples in clients]
    federation = Federation.of([(one[:, :1], one[:, 1]) for one in data])
    return Simulation(Task(algorithm, model, federation, Plan(1, K, order=InOrder())), len(clients))


def fedsls(c=0.6, max_step=0.1, eta_g=1.0):
    return zoo.fedsls(c, max_step, 0.9, Restart(), eta_g)


OPPOSED = [(1.0, 1.0), (1.0, -1.0)]  # (w - 1)^2 / 2 and (w + 1)^2 / 2


def held(measured):
    return {one.what: one.holds for one in measured.hypotheses}


def test_kappa_is_that_of_both_points():
    # at w = 0 both losses are 1/2; one step of 0.1 from there: (0.9^2 - (0.9^2 + 1.1^2) / 2) / 2 = -0.1, over 0.1^2
    found = measure(scalar(fedsls(), OPPOSED), 1, 1, 9)
    (one,) = found.rounds
    assert one.before == 0.0
    assert one.after == pytest.approx(10.0)
    assert found.kappa == one.after
    assert held(found)["kappa_f < c / (2 eta_max)"] == "fails"  # the limit is 3


def test_kappa_sums_over_the_steps_of_a_client_before_it_divides():
    # from 0.1 the second sample: f = 1.1^2 / 2, the mean (1.1^2 + 0.9^2) / 4, g = 1.1, w = -0.01
    (one,) = measure(scalar(fedsls(), OPPOSED, K=2), 1, 1, 9).rounds
    energy = 0.01 * (1 + 1.21)
    assert one.before == pytest.approx((0 + 0.1) / energy)
    assert one.after == pytest.approx((0.1 + 0.01) / energy)


def test_kappa_is_the_largest_over_the_clients():
    calm, wild = [(1.0, 1.0)], [(1.0, 1.0), (1.0, -3.0)]
    found = measure(scalar(fedsls(), calm, wild), 1, 1, 9)
    kappas = {one.client: max(one.before, one.after) for one in found.rounds}
    assert kappas[0] == pytest.approx(0.0)
    # f_xi = 1/2, f = (1 + 9) / 4 at 0; (0.9^2 - (0.9^2 + 3.1^2) / 2) / 2 at 0.1
    assert kappas[1] == pytest.approx(max(2.0, (3.1**2 - 0.9**2) / 4) / 0.01)
    assert found.kappa == kappas[1]


def test_failed_searches_are_counted_and_left_out():
    # the paper's program takes a tiny step all the same
    hopeless = build("fedsls(step=LineSearch(max_step=1000.0, trials=1, failure=Nudge()))")
    found = measure(scalar(hopeless, OPPOSED), 1, 1, 9)
    assert [one.failed for one in found.rounds] == [1]
    assert np.isnan(found.kappa)
    assert held(found)["kappa_f < c / (2 eta_max)"] == "not measured"


def test_smoothness_is_what_gradients_and_refused_trials_prove():
    curved = measure(scalar(fedsls(), [(3.0, 1.0)]), 1, 1, 9)
    assert pytest.approx(3.0) == curved.L
    # -w, and a wall behind 1: from 0 the step 2 is refused and 1 is taken, along which no slope changes. 2 (1 - 0.6) / 2
    wall = FunctionModel(
        lambda x, batch: (50 * (x - 1).clamp(min=0) ** 2 - x).sum(), torch.zeros(1).double()
    )
    one = Federation.of([(torch.ones(1, 1), torch.ones(1))])
    task = Task(zoo.fedsls(0.6, 2.0, 0.5, Restart()), wall, one, Plan(1, 1))
    assert pytest.approx(0.4) == measure(Simulation(task, 1), 1, 1, 9).L


@pytest.mark.parametrize(("part", "holds"), [(0.99, "not refuted"), (1.01, "fails")])
def test_the_verdict_on_max_step_flips_at_its_limit(part, holds):
    limit = (2 * 0.8 - 0.5) / (2 * 3.0)  # c, eta_g, K, L
    found = measure(scalar(fedsls(0.8, part * limit, 0.5), [(3.0, 0.0)], K=2, start=1.0), 1, 1, 9)
    assert held(found)["eta_max < (2c - eta_g) / (K L + 4 kappa_f)"] == holds


@pytest.mark.parametrize(("c", "holds"), [(0.51, "not refuted"), (0.49, "fails")])
def test_the_first_theorem_needs_what_noise_leaves_of_c(c, holds):
    # without noise c' = c
    found = measure(scalar(fedsls(c, 0.01), [(1.0, 1.0)]), 1, 1, 9)
    assert held(found)["1/2 < c' = c - 2 kappa_f eta_max"] == holds
    noisy = measure(scalar(fedsls(0.9, 0.1), OPPOSED), 1, 1, 9)
    (asked,) = (one for one in noisy.hypotheses if one.theorems == "1")
    assert asked.limit == pytest.approx(0.9 - 2 * 10 * 0.1)


def test_an_extrapolated_server_has_a_server_step_of_one_in_the_limit():
    found = measure(scalar(zoo.fedexpsls(0.8, 0.1, reset=Restart()), [(3.0, 1.0)]), 1, 1, 9)
    assert found.eta_g == 1.0


def test_interpolation_is_of_clients_and_not_of_samples():
    asked = "f_i(w*) - min f_i < (f(w_0) - f*)/1000"
    found = measure(scalar(fedsls(), OPPOSED, start=2.0), 1, 1, 9)
    assert found.gap == pytest.approx(0.0, abs=1e-12)
    assert held(found)[asked] == "not refuted"
    # minimisers 0 and 1, curvatures 1 and 3: w* = 3/4, the gaps are 9/32 and 3/32
    found = measure(scalar(fedsls(), [(1.0, 0.0)], [(3.0, 1.0)], start=2.0), 1, 1, 9)
    assert found.gap == pytest.approx(9 / 32)
    assert found.fall == pytest.approx((2 + 1.5) / 2 - (9 + 3) / 64)
    assert held(found)[asked] == "fails"


def test_looking_does_not_change_the_run():
    def loss(points):
        seen = []
        sim = scalar(fedsls(), OPPOSED, [(3.0, 1.0)], K=3, start=2.0)
        measure(
            sim, 4, points, 9, lambda rows: (seen.append(float(row[0].x)) or row for row in rows)
        )
        return seen

    sim = scalar(fedsls(), OPPOSED, [(3.0, 1.0)], K=3, start=2.0)
    plain = [float(state.x) for state, _ in sim.run(sim.begin(4), Store(), 4)]
    assert loss(1) == loss(4) == plain


def test_as_many_rounds_and_clients_are_looked_at_as_asked_for():
    sim = scalar(fedsls(), OPPOSED, [(3.0, 1.0)], [(1.0, 5.0)])
    found = measure(sim, 5, 3, 2)
    assert sorted({one.round for one in found.rounds}) == [0, 2, 4]
    assert len({one.client for one in found.rounds}) == 2
    assert json.dumps(found.record())
    assert asdict(found.rounds[0])["round"] == 0


@pytest.mark.parametrize("word", ["rounds", "points", "clients"])
def test_numbers_below_one_are_refused(word):
    given = {"rounds": 1, "points": 1, "most": 1, ("most" if word == "clients" else word): 0}
    with pytest.raises(InputError, match=f"--{word} 0: give at least 1"):
        measure(scalar(fedsls(), OPPOSED), **given)


@pytest.mark.parametrize("text", ["fedavg", "fedsls(condition=Goldstein())", "fedadam"])
def test_other_methods_are_refused(text):
    with pytest.raises(InputError, match="the theorems are of FedSLS and FedExpSLS"):
        measure(scalar(build(text), OPPOSED), 1, 1, 9)


def fedstep(*words, cwd):
    call = [sys.executable, "-m", "fedstep.cli", *map(str, words)]
    wide = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(call, capture_output=True, text=True, cwd=cwd, env=wide)


def test_the_command_lists_every_item_with_its_verdict(tmp_path):
    done = fedstep("theory", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in (
        "T6",
        "Theorem 6*",
        "FedExpSLS, strongly convex",
        "0.36 > 0",
        "vacuous",
        "Remark 1†",
    ):
        assert words in done.stdout
    assert "not confirmed" not in done.stdout


def test_the_command_shows_an_item_in_full(tmp_path):
    done = fedstep("theory", "theorem 4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in ("statement", "c = 0.999, eta_g = 0.1, eta_max = 0.5, T = 68", "0.9736 > 0.6006"):
        assert words in done.stdout
    (item,) = json.loads(fedstep("theory", "R1", "--json", cwd=tmp_path).stdout)
    assert (item["key"], item["verdict"], item["inequalities"][0][1:]) == (
        "R1",
        "false",
        [2.0, 1.0],
    )


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
label = "Ours"
spec = "fedexpsls"
"""


def test_the_command_measures_the_papers_methods_of_a_study(tmp_path):
    (tmp_path / "mine.toml").write_text(STUDY)
    done = fedstep("theory", "mine.toml", "--rounds", 2, "--points", 2, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "fedexpsls, seed 4" in done.stdout
    assert "kappa_f < c / (2 eta_max)" in done.stdout
    words = ("--method", "Ours", "--method", "fedsls(c=0.7)", "--rounds", 1, "--seed", 0, "--json")
    first, second = json.loads(fedstep("theory", "mine.toml", *words, cwd=tmp_path).stdout)
    assert (first["spec"], second["spec"], second["c"], second["seed"]) == (
        "fedexpsls",
        "fedsls(c=0.7)",
        0.7,
        0,
    )
    assert len(second["rounds"]) == 6
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "fedstep: unknown study 'nothing'"),
        (["mine.toml", "--rounds", "0"], "fedstep: --rounds 0: give at least 1"),
        (["mine.toml", "--method", "fedsls(d=1)"], "unknown argument of fedsls 'd'"),
        (["mine.toml", "--method", "fedavg"], "the theorems are of FedSLS and FedExpSLS"),
    ],
)
def test_bad_input_is_one_line(tmp_path, words, message):
    (tmp_path / "mine.toml").write_text(STUDY)
    done = fedstep("theory", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
