"""The SLS optimiser (Vaswani et al., 2019), through the torch optimiser and through a federated client."""

from __future__ import annotations

from functools import partial
from math import inf

import pytest
import torch
from programs import close

from fedstep.algorithm import Algorithm
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Sequential, Store, Task
from fedstep.local.solver import LocalSolver
from fedstep.models.function import FunctionModel
from fedstep.optim import Armijo as ArmijoOptimizer
from fedstep.steps.conditions import Armijo
from fedstep.steps.failures import Nudge
from fedstep.steps.resets import Grow, Keep, Restart
from fedstep.steps.search import LineSearch

DEFAULTS = {
    "reset_option": 1,
    "c": 0.1,
    "beta_b": 0.9,
    "gamma": 2.0,
    "n_batches_per_epoch": 500,
    "init_step_size": 1.0,
}


def settings(run):
    s = {**DEFAULTS, **{k: v for k, v in run["settings"].items() if k in DEFAULTS}}
    reset = (Keep(), Grow(s["gamma"], per=s["n_batches_per_epoch"]), Restart())[s["reset_option"]]
    return s["c"], {
        "reset": reset,
        "shrink": s["beta_b"],
        "start": s["init_step_size"],
        "max_step": inf,
        "slack": 0.0,
    }


def inputs(data, run):
    target = run["settings"]["target"]
    matrix = data["X"] if target == "y" else data["A"]
    return torch.tensor(matrix, dtype=torch.float64), torch.tensor(
        data[target], dtype=torch.float64
    )


def batch_loss(value, a, w, b):
    return value(a @ w, b).mean()


def squares(z, b):
    return (z - b) ** 2


def logistic(z, y):
    return torch.nn.functional.binary_cross_entropy_with_logits(z, y, reduction="none")


def armijo_runs(data):
    return [(name, run) for name, run in data["runs"].items() if name.startswith("armijo")]


def test_optimizer_reproduces_every_armijo_run(oracle):
    data = oracle("sls_line_search")
    for _, run in armijo_runs(data):
        a, b = inputs(data["data"], run)
        value = logistic if run["settings"]["target"] == "y" else squares
        w = torch.tensor(run["settings"]["w0"], dtype=torch.float64, requires_grad=True)
        c, rest = settings(run)
        optimizer = ArmijoOptimizer([w], c, **rest)
        for step in run["steps"]:
            rows = data["data"]["batches"][step["batch"]]
            before = optimizer.step(partial(batch_loss, value, a[rows], w, b[rows]))
            close(before, step["loss_before"])
            close(w.detach(), step["w"])
            close(optimizer.state["search"]["step"], step["step_size"])
            assert optimizer.trials == step["trials"]


def test_a_client_reproduces_every_armijo_run(oracle):
    data = oracle("sls_line_search")
    for _, run in armijo_runs(data):
        a, b = inputs(data["data"], run)
        value = logistic if run["settings"]["target"] == "y" else squares
        c, rest = settings(run)
        algorithm = Algorithm(LocalSolver(LineSearch(Armijo(c), **rest)))
        model = FunctionModel(
            lambda x, batch, value=value: value(batch.inputs @ x, batch.targets),
            torch.tensor(run["settings"]["w0"]).double(),
        )
        task = Task(
            algorithm, model, Federation.of([(a, b)]), Plan(3, len(run["steps"]), order=InOrder())
        )
        update = next(
            Sequential()(task, algorithm.broadcast(algorithm.init(model.init())), [0], Store())
        )
        close(update.trace.sizes, [s["step_size"] for s in run["steps"]])
        close(update.trace.losses, [s["loss_before"] for s in run["steps"]])
        assert update.trace.trials.tolist() == [s["trials"] for s in run["steps"]]
        close(update.aggregate.delta, run["steps"][-1]["w"])


class WrongSign(torch.autograd.Function):
    """|w|^2 with the gradient of -|w|^2."""

    @staticmethod
    def forward(ctx, w):
        ctx.save_for_backward(w)
        return w @ w

    @staticmethod
    def backward(ctx, grad):
        return -2 * grad * ctx.saved_tensors[0]


def test_failed_search_moves_and_remembers_as_the_program_does(oracle):
    run = oracle("sls_line_search")["runs"]["failure/wrong_sign_gradient"]
    step = run["steps"][0]
    w = torch.tensor(run["settings"]["w0"], dtype=torch.float64, requires_grad=True)
    _, rest = settings(run)
    optimizer = ArmijoOptimizer([w], 0.1, failure=Nudge(1e-6, remember_trial=True), **rest)
    optimizer.step(lambda: WrongSign.apply(w))
    close(w.detach(), step["w"])
    assert optimizer.trials == step["trials"] == 100
    assert optimizer.failed
    close(optimizer.state["search"]["step"], step["step_size"])


def test_failure_in_the_other_three_policies_differs_from_the_program():
    kept = []
    for failure in (Nudge(1e-6, remember_trial=True), Nudge(1e-6), None):
        w = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        extra = {} if failure is None else {"failure": failure}
        optimizer = ArmijoOptimizer([w], 0.1, max_step=1.0, **extra)
        optimizer.step(lambda w=w: WrongSign.apply(w))
        kept.append((float(optimizer.state["search"]["step"]), float(w.detach()[0])))
    assert kept[0] == (pytest.approx(0.9**100), 1.000002)
    assert kept[1] == (1e-6, 1.000002)
    assert kept[2] == (1.0, 1.0)
