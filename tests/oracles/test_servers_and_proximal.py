"""Proximal points with extrapolation, AMSGrad, and the server optimisers of Flower, on recorded trajectories."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from programs import FULL, close

from fedstep import zoo
from fedstep.core.aggregate import Aggregate
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.server.moments import Peak
from fedstep.server.step_sizes import DistanceOverSum


def half_sum(x, batch):
    """1/2 |A x - b|^2."""
    return 0.5 * ((batch.inputs @ x - batch.targets) ** 2).sum()


def method(name, run):
    rule = name.split("/")[1]
    return {
        "fedprox": lambda: zoo.fedexprox(run["gamma"]),
        "const_opt": lambda: zoo.fedexprox(run["gamma"], server_step=run["alpha_opt"]),
        "GraDS": lambda: zoo.fedexprox_grads(run["gamma"]),
        "StoPS": lambda: zoo.fedexprox_stops(run["gamma"]),
    }[rule]()


@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
def test_fedexprox_follows_its_formulas(oracle, executor):
    data = oracle("fedexprox_derived")
    a, b = (torch.tensor(data[k], dtype=torch.float64) for k in "Ab")
    clients = Federation.of([(a[rows], b[rows]) for rows in data["blocks"]])
    for name, run in data["runs"].items():
        task = Task(
            method(name, run),
            FunctionModel(half_sum, torch.zeros_like(a[0])),
            clients,
            Plan(2, 1, order=InOrder()),
        )
        sim = Simulation(task, 4, executor=executor)
        server = sim.begin(len(run["rounds"]))
        for row in run["rounds"]:
            before = server.x
            ((server, _),) = sim.run(server, Store(), server.round + 1)
            recorded = torch.tensor(row["w"], dtype=torch.float64)
            close(server.x, recorded, 1e-10)
            # The ratio of the steps is known as well as the steps are: differences of points that
            # come closer and closer. Along a whole run the errors multiply (two direct solvers in
            # numpy differ by 1e-8 after 28 rounds), so every round begins where the recorded did.
            digits_lost = float(recorded.norm() / (recorded - before).norm())
            close(server.eta_g, row["alpha"], 1e-12 + 1e-11 * digits_lost)
            server = replace(server, x=recorded)


def walk(rule, deltas):
    """The rule along a sequence of mean deltas: x and state after every round."""
    x = torch.zeros(len(deltas[0]), dtype=torch.float64)
    state = rule.init(x)
    for delta in deltas:
        d = torch.tensor(delta, dtype=torch.float64)
        step = rule.update(x, d, Aggregate.of(d, {}, torch.tensor(1.0)), state)
        x, state = step.x, step.state
        yield x, state


def test_fedams_follows_its_formula(oracle):
    data = oracle("server_optimizers_derived")
    run = data["runs"]["fedams"]
    s = run["settings"]
    rule = Peak(s["eta"], s["beta1"], s["beta2"], eps=s["tau"], floor=False, start=s["tau"] ** 2)
    for (x, state), row in zip(walk(rule, data["Delta"]), run["rounds"], strict=False):
        close(x, row["x"])
        close(state["m"], row["m"])
        close(state["v"], row["v"])


@pytest.mark.parametrize("name", ["fedadam", "fedyogi", "fedadagrad", "fedavgm"])
def test_flower_is_reproduced(oracle, name):
    data = oracle("flower_server_optimizers")
    rule = {
        "fedadam": zoo.fedadam_flower(),
        "fedyogi": zoo.fedyogi_flower(),
        "fedadagrad": zoo.fedadagrad_flower(),
        "fedavgm": zoo.fedavgm(server_step=0.1),  # the same in Flower and here
    }[name].server
    for (x, state), row in zip(walk(rule, data["Delta"]), data["runs"][name], strict=False):
        close(x, row["x"])
        if "m_t" in row:
            close(state["m"], row["m_t"])
            close(state["v"], row["v_t"])


def test_flower_differs_from_the_paper_by_as_much_as_recorded(oracle):
    data = oracle("flower_server_optimizers")
    for name, own, theirs in [
        ("fedadam", zoo.fedadam(), zoo.fedadam_flower()),
        ("fedyogi", zoo.fedyogi(), zoo.fedyogi_flower()),
        ("fedadagrad", zoo.fedadagrad(), zoo.fedadagrad_flower()),
    ]:
        pairs = zip(
            walk(own.server, data["Delta"]), walk(theirs.server, data["Delta"]), strict=True
        )
        largest = max(float((x - y).abs().max()) for (x, _), (y, _) in pairs)
        assert largest == pytest.approx(data["max_abs_diff_vs_derived"][name], rel=1e-9)


def test_distance_over_sum_is_dog_where_deltas_are_negative_gradients():
    if not FULL.is_dir():
        pytest.skip("the full oracle files are not beside the repository")
    read = lambda name: json.loads((FULL / f"{name}.json").read_text())  # noqa: E731
    run, data = read("stochastic_stepsizes")["runs"]["DoG/linreg"], read("sls_line_search")["data"]
    a, b = (
        torch.tensor(data[k], dtype=torch.float64)
        for k in ("A", run["settings"].get("target", "b"))
    )
    rule = DistanceOverSum(run["settings"]["reps_rel"], run["settings"]["eps"])
    w = torch.zeros(a.shape[1], dtype=torch.float64)
    state = rule.init(w)
    for step in run["steps"]:
        rows = data["batches"][step["batch"]]
        g = 2 * a[rows].T @ (a[rows] @ w - b[rows]) / len(rows)
        taken = rule.update(w, -g, Aggregate.of(-g, {}, torch.tensor(1.0)), state)
        w, state = taken.x, taken.state
        close(taken.eta_g, step["eta"])
        close(state["distance"], step["rbar"])
        close(state["squares"] + rule.eps, step["G"])
        close(w, step["w"])
