"""Goldstein's conditions, PoNoS, nonmonotone searches and Polyak steps as the original programs compute them."""

from __future__ import annotations

import json
from math import inf

import torch
from programs import HERE, close

from fedstep.algorithm import Algorithm
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.local.solver import LocalSolver
from fedstep.models.function import FunctionModel
from fedstep.optim import Searching
from fedstep.steps.conditions import Armijo, Goldstein
from fedstep.steps.failures import LastTrial, Nudge
from fedstep.steps.polyak import Polyak
from fedstep.steps.proposals import Factors
from fedstep.steps.references import Current, Grippo, ZhangHager
from fedstep.steps.resets import Grow, Keep, PolyakGuess, Restart
from fedstep.steps.search import LineSearch

DATA = json.loads((HERE / "extracts" / "sls_line_search.json").read_text())["data"]


def squares(x, batch):
    return (batch.inputs @ x - batch.targets) ** 2


def follow(rule, run, executor, tolerance):
    """A client with this rule takes the recorded steps."""
    a, b = (torch.tensor(DATA[name], dtype=torch.float64) for name in "Ab")
    algorithm, steps = Algorithm(LocalSolver(rule)), run["steps"]
    model = FunctionModel(squares, torch.zeros(4, dtype=torch.float64))
    task = Task(algorithm, model, Federation.of([(a, b)]), Plan(3, len(steps), order=InOrder()))
    update = next(executor(task, algorithm.broadcast(algorithm.init(model.init())), [0], Store()))
    close(update.trace.losses.reshape(-1), [s["loss_before"] for s in steps])
    close(update.trace.sizes.reshape(-1), [s["step_size"] for s in steps], tolerance)
    close(update.aggregate.delta, steps[-1]["w"])
    if "trials" in steps[0]:
        assert update.trace.trials.reshape(-1).tolist() == [s["trials"] for s in steps]


def both(rule, run, tolerance=1e-12):
    for executor in (Sequential(), Cohort()):
        follow(rule, run, executor, tolerance)


def test_a_client_reproduces_every_goldstein_run(oracle):
    runs = {n: r for n, r in oracle("sls_line_search")["runs"].items() if n.startswith("goldstein")}
    assert len(runs) >= 3
    for run in runs.values():
        s = run["settings"]
        assert s["reset_option"] == 0
        rule = LineSearch(
            Goldstein(s["c"]),
            Keep(),
            max_step=inf,
            shrink=s["beta_b"],
            start=s["init_step_size"],
            failure=LastTrial(),
            slack=0.0,
            proposal=Factors(s["beta_f"], cap=s["eta_max"], floor=1e-8),
        )
        both(rule, run)


def test_a_client_reproduces_ponos(oracle):
    runs = {
        n: r for n, r in oracle("stochastic_stepsizes")["runs"].items() if n.startswith("PoNoS")
    }
    assert runs
    for run in runs.values():
        s = run["settings"]
        guess = PolyakGuess(s["c_p"], s["f_star"], s["min_eta"], s["save_backtracks"])
        rule = LineSearch(
            Armijo(s["c"]),
            guess,
            ZhangHager(s["zhang_xi"]),
            max_step=s["max_eta"],
            shrink=s["delta"],
            failure=Nudge(1e-6),
            slack=0.0,
        )
        both(rule, run)


def test_a_client_reproduces_the_nonmonotone_searches(oracle):
    runs = {
        n: r
        for n, r in oracle("stochastic_stepsizes")["runs"].items()
        if n.startswith("nonmonotone")
    }
    assert len(runs) >= 3
    for run in runs.values():
        s = run["settings"]
        reference = (
            Grippo(s["window"])
            if "window" in s
            else ZhangHager(s["xi"])
            if "xi" in s
            else Current()
        )
        rule = LineSearch(
            Armijo(s["c"]), Restart(), reference, shrink=s["beta"], start=s["start"], slack=0.0
        )
        both(rule, run)


def test_a_client_reproduces_the_stochastic_polyak_steps(oracle):
    runs = {n: r for n, r in oracle("stochastic_stepsizes")["runs"].items() if n.startswith("SPS")}
    assert len(runs) >= 2
    for run in runs.values():
        s = run["settings"]
        if s["adapt_flag"] == "smooth_iter":
            reset, bounds = (
                Grow(s["gamma"], per=s["n_batches_per_epoch"]),
                {"start": s["init_step_size"]},
            )
        else:
            reset, bounds = Restart(), {"max_step": s["eta_max"]}
        # Late steps are quotients of losses near 1e-10: squares of residuals near 1e-5, which are
        # differences of numbers near 1. They keep eleven digits, less what ten steps amplify.
        both(Polyak(s["c"], reset=reset, eps=1e-8, **bounds), run, tolerance=1e-9)


def test_the_optimizer_takes_the_same_steps_as_a_client(oracle):
    data, runs = DATA, oracle("sls_line_search")["runs"]
    a, b = (torch.tensor(data[name], dtype=torch.float64) for name in "Ab")
    for run in (r for n, r in runs.items() if n.startswith("goldstein")):
        s = run["settings"]
        factors = Factors(s["beta_f"], cap=s["eta_max"], floor=1e-8)
        rule = LineSearch(
            Goldstein(s["c"]),
            Keep(),
            max_step=inf,
            start=s["init_step_size"],
            slack=0.0,
            proposal=factors,
        )
        w = torch.zeros(4, dtype=torch.float64, requires_grad=True)
        optimizer = Searching([w], rule)
        for step in run["steps"]:
            rows = data["batches"][step["batch"]]
            optimizer.step(lambda w=w, rows=rows: ((a[rows] @ w - b[rows]) ** 2).mean())
            close(w.detach(), step["w"])
            assert optimizer.trials == step["trials"]
