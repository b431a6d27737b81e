"""SCAFFOLD and FedAvgM-Exp of the FedExP program and its notebook, and the corrections on heterogeneous quadratics."""

from __future__ import annotations

import pytest
import torch
from programs import close, program

from fedstep import authors, zoo
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation

FEDEXP = {
    "scaffold": authors.scaffold(0.1),
    "scaffold(exp)": authors.scaffold_exp(0.1, eps=0.1),
    "fedavgm(exp)": authors.fedavgm_exp(),
    "scaffold/override": authors.scaffold(0.5),
    "scaffold(exp)/override": authors.scaffold_exp(0.5, eps=1e-4),
    "fedavgm(exp)/override": authors.fedavgm_exp(0.5, eps=1e-4),
}
both = pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])


@both
@pytest.mark.parametrize("name", FEDEXP)
def test_fedexp_program_is_reproduced(oracle, name, executor):
    data = oracle("fedexp_main_server")
    if name not in data["runs"]:
        pytest.skip("not in these files")
    simulation, rounds = program(data, FEDEXP[name], executor=executor), data["runs"][name]
    states = simulation.run(simulation.begin(len(rounds)), Store(), len(rounds))
    for (server, _), row in zip(states, rounds, strict=True):
        close(server.x, row["w"])
        close(server.readout, row["w_eval"])
        close(server.eta_g, row["eta_g"])


def half_sum(x, batch):
    """1/2 |A x - b|^2."""
    return 0.5 * ((batch.inputs @ x - batch.targets) ** 2).sum()


@pytest.mark.parametrize("option", [2])
def test_notebook_scaffold_is_reproduced(oracle, option):
    small = oracle("fedexp_notebook_linreg")["small"]
    s = small["settings"]
    a, b = (
        torch.tensor(small["data"][k], dtype=torch.float64)
        for k in ("A_client_normalised", "b_client_normalised")
    )
    model = FunctionModel(half_sum, torch.zeros(s["d"], dtype=torch.float64))
    method = zoo.scaffold(s["eta_l"], option, s["eta_g"]["scaffold"])
    task = Task(
        method,
        model,
        Federation.of(list(zip(a, b, strict=True))),
        Plan(s["s"], s["tau"], order=InOrder()),
    )
    simulation, rounds = Simulation(task, s["n"]), small["traj"]["scaffold"]
    states = simulation.run(simulation.begin(len(rounds)), Store(), len(rounds))
    for (server, _), row in zip(states, rounds, strict=True):
        close(server.x, row["w"])


def quadratic(x, batch):
    """1/2 (x - c)^T Q (x - c), the mean over a client's copies of its one sample."""
    gap = x - batch.targets
    return 0.5 * torch.einsum("bi,bij,bj->b", gap, batch.inputs, gap)


def quadratics(data, method, executor, copies=(1, 1, 1), plan=None):
    """A client with m copies of its sample takes m steps an epoch with batches of 1."""
    clients = [
        (torch.tensor([q] * m, dtype=torch.float64), torch.tensor([c] * m, dtype=torch.float64))
        for q, c, m in zip(data["Q"], data["c"], copies, strict=True)
    ]
    model = FunctionModel(quadratic, torch.zeros(3, dtype=torch.float64))
    plan = plan or Plan(1, 5, order=InOrder())
    return Simulation(Task(method, model, Federation.of(clients), plan), 3, executor=executor)


QUADRATICS = {
    "fedavg": lambda s: zoo.fedavg(s["lr"]),
    "fedprox": lambda s: zoo.fedprox(s["lr"], s["mu"]),
    "scaffold1": lambda s: zoo.scaffold(s["lr"], option=1, server_step=s["eta_g"]),
    "scaffold2": lambda s: zoo.scaffold(s["lr"], option=2, server_step=s["eta_g"]),
    "feddyn": lambda s: zoo.feddyn(s["lr"], s["alpha_feddyn"]),
    "fednova": lambda s: zoo.fednova(s["lr"]),
    "fedlin": lambda s: zoo.fedlin(s["lr"]),
    "feddane": lambda s: zoo.feddane(s["lr"], s["mu"]),
}


@both
@pytest.mark.parametrize("name", QUADRATICS)
def test_corrections_follow_their_formulas_on_quadratics(oracle, name, executor):
    data = oracle("fl_quadratics_derived")
    if name not in data["runs"]:
        pytest.skip("not in these files")
    run = data["runs"][name]
    s, rounds = run["settings"], run["rounds"]
    copies, plan = ((1, 1, 1), Plan(1, s["K"], order=InOrder()))
    if name == "fednova":
        copies, plan = s["K_fednova"], Plan(1, None, 1, InOrder())
    simulation = quadratics(data, QUADRATICS[name](s), executor, copies, plan)
    states = simulation.run(simulation.begin(len(rounds)), Store(), len(rounds))
    for (server, _), row in zip(states, rounds, strict=True):
        close(server.x, row["w"])
