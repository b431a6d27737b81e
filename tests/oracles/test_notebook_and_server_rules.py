"""FedExP's notebook on least squares, and the server optimisers on a fixed sequence of deltas."""

from __future__ import annotations

import pytest
import torch
from programs import close

from fedstep import zoo
from fedstep.core.aggregate import Aggregate
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Store, Task
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.server.rules import Extrapolate


def half_sum(x, batch):
    """1/2 |A x - b|^2."""
    return 0.5 * ((batch.inputs @ x - batch.targets) ** 2).sum()


def notebook(name, s):
    from dataclasses import replace

    step, eta_g = s["eta_l"], s["eta_g"]
    return {
        "fedavg": zoo.fedavg(step, eta_g["fedavg"]),
        "fedprox": zoo.fedprox(step, s["mu_fedprox"], eta_g["fedprox"]),
        "fedexp": replace(zoo.fedavg(step), server=Extrapolate(eps=0.0, min_step=0.0)),
        "fedadagrad": zoo.fedadagrad(step, eta_g["fedadagrad"], tau=0.0),
    }[name]


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fedexp", "fedadagrad"])
def test_fedexp_notebook_is_reproduced(oracle, name):
    small = oracle("fedexp_notebook_linreg")["small"]
    a, b = (
        torch.tensor(small["data"][k], dtype=torch.float64)
        for k in ("A_client_normalised", "b_client_normalised")
    )
    s = small["settings"]
    model = FunctionModel(half_sum, torch.zeros(s["d"], dtype=torch.float64))
    plan = Plan(s["s"], s["tau"], order=InOrder())
    task = Task(notebook(name, s), model, Federation.of(list(zip(a, b, strict=True))), plan)
    simulation = Simulation(task, s["n"])
    rounds = small["traj"][name]
    for (server, _), row in zip(
        simulation.run(simulation.begin(len(rounds)), Store(), len(rounds)), rounds, strict=True
    ):
        close(server.x, row["w"], 1e-8)
        close(server.eta_g, row["eta_g"], 1e-8)


@pytest.mark.parametrize("name", ["fedadagrad", "fedadam", "fedyogi", "fedavgm"])
def test_server_rules_follow_their_formulas_on_a_fixed_sequence(oracle, name):
    data = oracle("server_optimizers_derived")
    run = data["runs"][name]
    s = run["settings"]
    rule = {
        "fedadagrad": zoo.fedadagrad(server_step=s["eta"], beta=s["beta1"], tau=s["tau"]),
        "fedadam": zoo.fedadam(
            server_step=s["eta"], beta=s["beta1"], beta2=s["beta2"], tau=s["tau"]
        ),
        "fedyogi": zoo.fedyogi(
            server_step=s["eta"], beta=s["beta1"], beta2=s["beta2"], tau=s["tau"]
        ),
        "fedavgm": zoo.fedavgm(server_step=s["eta"], beta=s["beta1"]),
    }[name].server
    x = torch.zeros(3, dtype=torch.float64)
    state = rule.init(x)
    for delta, row in zip(data["Delta"], run["rounds"], strict=False):
        d = torch.tensor(delta, dtype=torch.float64)
        step = rule.update(x, d, Aggregate.of(d, {}, torch.tensor(1.0)), state)
        x, state = step.x, step.state
        close(x, row["x"])
        close(state["momentum" if name == "fedavgm" else "m"], row["m"])
        if name != "fedavgm":
            close(state["v"], row["v"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fedexp", "fedadagrad"])
def test_fedexp_notebook_is_reproduced_on_its_own_data(name):
    """d = 1000 unknowns, 20 clients of 30 rows, made by numpy's old generator as the notebook makes them."""
    import json

    import numpy as np
    from programs import FULL

    if not FULL.is_dir():
        pytest.skip("the full oracle files are not beside the repository")
    record = json.loads((FULL / "fedexp_notebook_linreg.json").read_text())["original_seed0"]
    s = record["settings"]
    rng, d, n = np.random.RandomState(s["numpy_seed"]), s["d"], s["n"]
    mean_w, b = rng.normal(0, s["alpha"], n), rng.normal(0, s["beta"], n)
    mean_x = [rng.normal(b[i], 1, d) for i in range(n)]
    clients = []
    for i in range(n):
        w = rng.normal(mean_w[i], 1, (d, 1))
        a = rng.multivariate_normal(mean_x[i], np.eye(d), s["s"])
        y = (a @ w)[:, 0]
        clients.append(
            (
                torch.tensor(a / np.linalg.norm(a, axis=1, keepdims=True)),
                torch.tensor(y / np.linalg.norm(y)),
            )
        )
        if i == 0 and not np.allclose(a[0, :5], record["A0_first5"]):
            pytest.skip("this LAPACK draws other multivariate normals than the recorded one")
    model = FunctionModel(half_sum, torch.zeros(d, dtype=torch.float64))
    task = Task(
        notebook(name, {**s, "mu_fedprox": s["mu"]}),
        model,
        Federation.of(clients),
        Plan(s["s"], s["tau"], order=InOrder()),
    )
    simulation = Simulation(task, n)
    for (server, _), row in zip(
        simulation.run(simulation.begin(8), Store(), 8), record["traj"][name], strict=True
    ):
        assert float(server.x.norm()) == pytest.approx(row["w_norm"], rel=1e-8)
        assert float(server.eta_g) == pytest.approx(row["eta_g"], rel=1e-8)
