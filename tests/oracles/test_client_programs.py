"""How a client moves, against the recorded programs: accelerated SLS, SEG, AdaSLS, DoG, Deep Frank-Wolfe, Delta-SGD."""

from __future__ import annotations

from math import inf

import pytest
import torch
from programs import close
from test_sls_program import inputs, squares

from fedstep import zoo
from fedstep.algorithm import Algorithm
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.local.moves import Decayed, Extragradient, Inertia, Nesterov, Straight
from fedstep.local.preconditioned import Adagrad, Adam, AMSGrad, Preconditioned, RMSProp
from fedstep.local.solver import LocalSolver
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.server.sampling import Given
from fedstep.steps.conditions import Armijo
from fedstep.steps.distance import DistanceOverGradients
from fedstep.steps.failures import Nudge
from fedstep.steps.frank_wolfe import FrankWolfe
from fedstep.steps.lipschitz import LipschitzSearch
from fedstep.steps.resets import Grow, Keep, Restart
from fedstep.steps.search import LineSearch


def grid(s, failure):
    """The search of the SLS and AdaSLS programs."""
    reset = (Keep(), Grow(s.get("gamma", 2.0), per=s.get("n_batches_per_epoch", 500)), Restart())[
        s["reset_option"]
    ]
    cap = s.get("eta_max") or inf
    start = s.get("init_step_size", 1.0)
    return LineSearch(
        Armijo(s["c"] if s["c"] < 1 else 0.1), reset, max_step=cap, shrink=s["beta_b"], start=start, failure=failure, slack=0.0
    )  # fmt: skip


def walk(local, a, b, start, steps, batch=3, loss=squares):
    """The points after 1, 2, ... steps of one client, and the trace of all of them."""
    model = FunctionModel(lambda x, batch: loss(batch.inputs @ x, batch.targets), start)
    algorithm = Algorithm(local)
    points = []
    for k in range(1, steps + 1):
        task = Task(algorithm, model, Federation.of([(a, b)]), Plan(batch, k, order=InOrder()))
        update = next(
            Sequential()(task, algorithm.broadcast(algorithm.init(model.init())), [0], Store())
        )
        points.append(start + update.aggregate.delta)
    return points, update.trace


def check(run, points, trace, sizes=True):
    steps = run["steps"]
    for point, step in zip(points, steps, strict=True):
        close(point, step["w"])
    close(trace.losses, [s["loss_before"] for s in steps])
    if sizes:
        close(trace.sizes, [s["step_size"] for s in steps])
        assert trace.trials.tolist() == [s["trials"] for s in steps]


def test_accelerated_searches_reproduce_the_program(oracle):
    data = oracle("sls_line_search")
    runs = {name: run for name, run in data["runs"].items() if name.startswith("acc")}
    assert runs
    for run in runs.values():
        s = run["settings"]
        move = Nesterov() if s["acceleration_method"] == "nesterov" else Inertia(s["momentum"])
        a, b = inputs(data["data"], run)
        start = torch.tensor(s["w0"], dtype=torch.float64)
        local = LocalSolver(grid(s, Nudge(1e-6, remember_trial=True)), move=move)
        check(run, *walk(local, a, b, start, len(run["steps"])))


def literal_extragradient(a, b, w, steps, eta, c, shrink, growth):
    """The SEG client of the program, by hand: batches of 3 in order, f = mean (a w - b)^2."""
    path, sizes, trials = [], [], []

    def gradient(at, rows):
        return 2 * a[rows].T @ (a[rows] @ at - b[rows]) / len(rows)

    for k in range(steps):
        rows = [3 * (k % 4) + j for j in range(3)]
        g, eta, tried = gradient(w, rows), eta * growth, 1
        while (eta / c) ** 2 * ((ahead := gradient(w - eta * g, rows)) - g).square().sum() > (
            eta * g
        ).square().sum():
            eta, tried = eta * shrink, tried + 1
        w = w - eta * ahead
        path, sizes, trials = [*path, w], [*sizes, eta], [*trials, tried]
    return path, sizes, trials


@pytest.mark.parametrize(("c", "reset"), [(0.9, 1), (0.5, 0), (0.9, 2)])
def test_extragradient_steps_are_those_of_the_program(oracle, c, reset):
    data = oracle("sls_line_search")["data"]
    a, b = (
        torch.tensor(data["A"], dtype=torch.float64),
        torch.tensor(data["b"], dtype=torch.float64),
    )
    start = torch.zeros(4, dtype=torch.float64)
    s = {"c": c, "reset_option": reset, "beta_b": 0.9, "init_step_size": 1.0}
    local = LocalSolver(LipschitzSearch(c, grid(s, Nudge(1e-6))), move=Extragradient())
    points, trace = walk(local, a, b, start, 8)
    if reset == 2:  # always from the start value
        path, sizes, trials = [], [], []
        for k in range(8):
            turn = torch.arange(12).roll(-3 * (k % 4))
            got = literal_extragradient(
                a[turn], b[turn], path[-1] if k else start, 1, 1.0, c, 0.9, 1.0
            )
            path, sizes, trials = path + got[0], sizes + got[1], trials + got[2]
    else:
        path, sizes, trials = literal_extragradient(
            a, b, start, 8, 1.0, c, 0.9, 2 ** (1 / 500) if reset else 1.0
        )
    for point, wanted in zip(points, path, strict=True):
        close(point, wanted.tolist())
    close(trace.sizes, sizes)
    assert trace.trials.tolist() == trials
    assert (
        trace.passes.backwards == 8 + sum(trials) + 8
    )  # gradients, trials, and the looks at the ends
    assert trace.passes.forwards == 8 + sum(trials) + 8


def moment(s):
    base = {"adagrad": Adagrad(), "rmsprop": RMSProp(s["beta"])}
    momentum = 0.0 if s.get("mom_type") == "heavy_ball" else s["momentum"]
    return base.get(s["base_opt"]) or {"adam": Adam, "amsgrad": AMSGrad}[s["base_opt"]](
        s["beta"], momentum
    )


def test_preconditioned_searches_reproduce_the_program(oracle):
    data, runs = oracle("sls_line_search")["data"], oracle("stochastic_stepsizes")["runs"]
    chosen = {name: run for name, run in runs.items() if name.startswith("AdaSLS")}
    assert len(chosen) >= 2
    for run in chosen.values():
        s = run["settings"]
        direction = Preconditioned(moment(s), s["eps"], s.get("pp_norm_method") == "pp_lipschitz")
        move = Nesterov(s["momentum"]) if s.get("mom_type") == "heavy_ball" else Straight()
        a, b = (
            torch.tensor(data["A"], dtype=torch.float64),
            torch.tensor(data["b"], dtype=torch.float64),
        )
        local = LocalSolver(grid(s, Nudge(1e-6)), direction, move=move)
        check(run, *walk(local, a, b, torch.zeros(4, dtype=torch.float64), len(run["steps"])))


def test_distance_over_gradients_reproduces_the_program(oracle):
    data, runs = oracle("sls_line_search")["data"], oracle("stochastic_stepsizes")["runs"]
    for run in (run for name, run in runs.items() if name.startswith("DoG")):
        s = run["settings"]
        rule = DistanceOverGradients(s["reps_rel"], s["lr"], s["eps"], s.get("init_eta"))
        a, b = (
            torch.tensor(data["A"], dtype=torch.float64),
            torch.tensor(data["b"], dtype=torch.float64),
        )
        points, trace = walk(
            LocalSolver(rule), a, b, torch.zeros(4, dtype=torch.float64), len(run["steps"])
        )
        check(run, points, trace, sizes=False)
        close(trace.sizes, [step["eta"] for step in run["steps"]])


def hinge(z, y):
    """Crammer and Singer's hinge, sample by sample."""
    y = y.long()
    raised = z + 1.0 - torch.nn.functional.one_hot(y, z.shape[-1]).to(z)
    return raised.max(-1).values - z.gather(-1, y[:, None]).squeeze(-1)


def test_frank_wolfe_reproduces_the_program(oracle):
    data, runs = oracle("sls_line_search")["data"], oracle("stochastic_stepsizes")["runs"]
    chosen = [run for name, run in runs.items() if name.startswith("DFW")]
    assert len(chosen) >= 2
    features, labels = (
        torch.tensor(data["X"], dtype=torch.float64),
        torch.tensor(data["y"], dtype=torch.float64),
    )
    for run in chosen:
        s = run["settings"]
        local = LocalSolver(
            FrankWolfe(s["eta"], s["weight_decay"], s["eps"]),
            move=Decayed(s["eta"], s["weight_decay"], s["momentum"]),
        )
        model = FunctionModel(
            lambda x, batch: hinge(batch.inputs @ x.view(3, 2), batch.targets),
            torch.zeros(6, dtype=torch.float64),
        )
        algorithm = Algorithm(local)
        for k, step in enumerate(run["steps"], 1):
            task = Task(
                algorithm, model, Federation.of([(features, labels)]), Plan(3, k, order=InOrder())
            )
            update = next(
                Sequential()(task, algorithm.broadcast(algorithm.init(model.init())), [0], Store())
            )
            close(update.aggregate.delta.view(3, 2), step["W"])
        close(update.trace.losses, [step["loss_before"] for step in run["steps"]])
        close(update.trace.sizes / s["eta"], [step["gamma"] for step in run["steps"]])


@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
def test_delta_sgd_reproduces_its_reference(oracle, executor):
    data = oracle("fl_quadratics_derived")
    run = data["runs"]["delta_sgd"]
    s, (q, c) = (
        run["settings"]["delta_sgd"],
        (torch.tensor(data[k], dtype=torch.float64) for k in "Qc"),
    )

    def loss(x, batch):
        gap = x - batch.targets[0]
        return gap @ batch.inputs[0] @ gap / 2

    federation = Federation.of([(q[i][None], c[i][None]) for i in range(3)])
    algorithm = zoo.delta_sgd(s["eta0"], s["gamma"], s["delta"], s["theta0"])
    task = Task(
        algorithm,
        FunctionModel(loss, torch.zeros(3, dtype=torch.float64)),
        federation,
        Plan(1, run["settings"]["K"]),
    )
    rounds = run["rounds"]
    sim = Simulation(task, 3, Given(((0, 1, 2),) * len(rounds)), executor)
    for (server, row), wanted in zip(
        sim.run(sim.begin(len(rounds)), Store(), len(rounds)), rounds, strict=True
    ):
        close(server.x, wanted["w"])
        close(row.steps[-1], max(map(max, wanted["steps"])))
