"""Step rules against their literal numpy versions, over sweeps of every setting."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from pathlib import Path

import literal_searches as literal
import numpy as np
import pytest
import torch
from literal_searches import Problem, Walk, problem
from torch import Tensor

from fedstep import authors
from fedstep.algorithm import Algorithm
from fedstep.core.types import Batch
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Executor, Sequential, Store, Task
from fedstep.local.solver import LocalSolver
from fedstep.models.function import FunctionModel
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.server.sampling import Given
from fedstep.steps.cadence import Settled
from fedstep.steps.conditions import Armijo, Goldstein
from fedstep.steps.failures import LastTrial, Nudge
from fedstep.steps.polyak import DecreasingPolyak, Polyak
from fedstep.steps.proposals import Factors
from fedstep.steps.references import Current, Grippo, Smoothed, ZhangHager
from fedstep.steps.resets import Grow, Keep, PolyakGuess, Restart
from fedstep.steps.rule import StepRule
from fedstep.steps.search import LineSearch

KINDS = pytest.mark.parametrize("kind", ["squares", "logistic"])
STEPS = 16
PROGRAM_DATA = Path(__file__).parents[1] / "oracles" / "extracts" / "fedsls_fedexpsls_server.json"


def torch_loss(kind: str) -> Callable[[Tensor, Batch], Tensor]:
    def loss(x: Tensor, batch: Batch) -> Tensor:
        z = batch.inputs @ x
        if kind == "squares":
            return (z - batch.targets) ** 2
        return torch.nn.functional.binary_cross_entropy_with_logits(
            z, batch.targets, reduction="none"
        )

    return loss


def library(p: Problem, rule: StepRule, executor: Executor, steps: int = STEPS) -> Walk:
    algorithm = Algorithm(LocalSolver(rule))
    model = FunctionModel(torch_loss(p.kind), torch.zeros(p.a.shape[1], dtype=torch.float64))
    data = Federation.of([(torch.tensor(p.a), torch.tensor(p.y))] * 2)
    task = Task(algorithm, model, data, Plan(3, steps, order=InOrder()))
    updates = list(
        executor(task, algorithm.broadcast(algorithm.init(model.init())), [0, 1], Store())
    )
    total = (
        sum((u.aggregate.delta for u in updates), torch.zeros(p.a.shape[1], dtype=torch.float64))
        / 2
    )
    trace = updates[0].trace
    return Walk(
        total.numpy(),
        trace.sizes.reshape(-1, steps)[0].tolist(),
        trace.trials.reshape(-1, steps)[0].tolist(),
    )


def same(p: Problem, rule: StepRule, expected: Walk) -> None:
    for executor in (Sequential(), Cohort()):
        found = library(p, rule, executor, len(expected.steps))
        assert found.trials == expected.trials
        np.testing.assert_allclose(found.steps, expected.steps, rtol=1e-10)
        np.testing.assert_allclose(found.w, expected.w, rtol=1e-12, atol=1e-12)


@KINDS
@pytest.mark.parametrize("reset", [0, 1, 2])
@pytest.mark.parametrize(
    ("c", "init", "beta_b"), [(0.1, 1.0, 0.9), (0.3, 10.0, 0.5), (0.5, 0.01, 0.8), (0.9, 3.0, 0.7)]
)
def test_the_sls_program_with_armijo_for_any_setting(
    kind: str, c: float, init: float, beta_b: float, reset: int
) -> None:
    p = problem(kind)
    resets = (Keep(), Grow(1.5, per=6), Restart())
    rule = LineSearch(
        Armijo(c),
        resets[reset],
        max_step=inf,
        shrink=beta_b,
        start=init,
        failure=Nudge(1e-6, True),
        slack=0.0,
    )
    same(p, rule, literal.sls(p, STEPS, False, c, init, reset, beta_b, gamma=1.5, n_batches=6))


@KINDS
@pytest.mark.parametrize("reset", [0, 1, 2])
@pytest.mark.parametrize(
    ("c", "init", "beta_b", "beta_f", "eta_max", "most"),
    [
        (0.1, 1.0, 0.9, 2.0, 10.0, 100),
        (0.25, 0.01, 0.9, 2.0, 10.0, 100),
        (0.4, 10.0, 0.5, 3.0, 10.0, 100),
        (0.49, 1.0, 0.9, 2.0, 10.0, 7),  # runs out of trials
        (0.1, 0.001, 0.8, 2.0, 0.02, 9),  # too short at the cap until the trials are used up
        (0.3, 40.0, 0.7, 1.5, inf, 50),
    ],
)
def test_the_sls_program_with_goldstein_for_any_setting(
    kind: str,
    c: float,
    init: float,
    beta_b: float,
    beta_f: float,
    eta_max: float,
    most: int,
    reset: int,
) -> None:
    p = problem(kind)
    expected = literal.sls(p, STEPS, True, c, init, reset, beta_b, beta_f, eta_max, 1.5, 6, most)
    if most < 10:
        assert most in expected.trials, "the trials were never used up"
    rule = LineSearch(
        Goldstein(c),
        (Keep(), Grow(1.5, per=6), Restart())[reset],
        max_step=inf,
        shrink=beta_b,
        trials=most,
        start=init,
        failure=LastTrial(),
        slack=0.0,
        proposal=Factors(beta_f, eta_max, 1e-8),
    )
    same(p, rule, expected)


@KINDS
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"c": 0.1, "c_p": 0.5},
        {"delta": 0.9, "xi": 0.5},
        {"xi": 0.0, "max_eta": 0.3},
        {"save_backtracks": False},
        {"min_eta": 0.4, "c": 0.9, "delta": 0.7},
    ],
)
def test_ponos_for_any_setting(kind: str, settings: dict[str, float]) -> None:
    p = problem(kind)
    s = {
        "c": 0.5,
        "c_p": 0.1,
        "delta": 0.5,
        "xi": 1.0,
        "max_eta": 10.0,
        "min_eta": 1e-6,
        "save_backtracks": True,
    }
    s |= settings
    guess = PolyakGuess(s["c_p"], 0.0, s["min_eta"], bool(s["save_backtracks"]))
    rule = LineSearch(
        Armijo(s["c"]),
        guess,
        ZhangHager(s["xi"]),
        max_step=s["max_eta"],
        shrink=s["delta"],
        failure=Nudge(1e-6),
        slack=0.0,
    )
    same(p, rule, literal.ponos(p, STEPS, **settings))  # type: ignore[arg-type]


@KINDS
@pytest.mark.parametrize(
    ("window", "xi"),
    [(None, None), (0, None), (1, None), (5, None), (20, None), (None, 0.3), (None, 0.85)],
)
@pytest.mark.parametrize(("c", "beta", "start"), [(0.5, 0.5, 1.0), (0.1, 0.9, 8.0)])
def test_nonmonotone_searches_for_any_setting(
    kind: str, c: float, beta: float, start: float, window: int | None, xi: float | None
) -> None:
    p = problem(kind)
    reference = (
        Grippo(window) if window is not None else Current() if xi is None else ZhangHager(xi)
    )
    rule = LineSearch(
        Armijo(c),
        Restart(),
        reference,
        max_step=inf,
        shrink=beta,
        start=start,
        failure=Nudge(1e-6),
        slack=0.0,
    )
    same(p, rule, literal.nonmonotone(p, STEPS, c, beta, start, window, xi))


@KINDS
@pytest.mark.parametrize("c", [0.2, 0.5, 1.5])
def test_stochastic_polyak_steps_for_any_setting(kind: str, c: float) -> None:
    p = problem(kind)
    same(p, Polyak(c, eps=1e-8), literal.sps(p, STEPS, c))
    same(p, Polyak(c, 0.15, eps=1e-8), literal.sps(p, STEPS, c, 0.15))
    smooth = Polyak(c, reset=Grow(1.7, per=5), start=0.3, eps=1e-8)
    same(p, smooth, literal.sps(p, STEPS, c, gamma=1.7, n_batches=5, init=0.3))


@KINDS
@pytest.mark.parametrize(("c", "bound"), [(0.5, 1.0), (1.0, 0.2), (0.2, 30.0)])
def test_decreasing_polyak_steps(kind: str, c: float, bound: float) -> None:
    p = problem(kind)
    same(p, DecreasingPolyak(c, bound), literal.decsps(p, STEPS, c, bound))


@KINDS
@pytest.mark.parametrize(("beta", "rarest"), [(0.0, 1), (0.9, 10), (0.99, 4)])
def test_salsa_equals_its_literal_version(kind: str, beta: float, rarest: int) -> None:
    p = problem(kind)
    rule = LineSearch(
        Armijo(0.3),
        Grow(1.1, per=1),
        Smoothed(beta),
        max_step=4.0,
        shrink=0.8,
        start=2.0,
        slack=0.0,
        cadence=Settled(rarest),
    )
    expected = literal.salsa(p, 160, 0.3, beta, 2.0, 0.8, 1.1, rarest, 4.0)
    assert (0 in expected.trials) == (rarest > 1), "searches were never left out"
    same(p, rule, expected)


def softmax_goldstein(
    w: np.ndarray, data: literal.Batch, c: float, start: float, grows: bool
) -> np.ndarray:
    """Five full-batch steps of the SLS optimiser with Goldstein's conditions on softmax regression, 4 -> 3 with bias."""
    x, y = data

    def value(w: np.ndarray) -> float:
        z = x @ w[:12].reshape(3, 4).T + w[12:]
        z = z - z.max(1, keepdims=True)
        return float(np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y]))

    def gradient(w: np.ndarray) -> np.ndarray:
        z = x @ w[:12].reshape(3, 4).T + w[12:]
        r = np.exp(z - z.max(1, keepdims=True))
        r = r / r.sum(1, keepdims=True)
        r[np.arange(len(y)), y] -= 1
        r /= len(y)
        return np.concatenate([(r.T @ x).ravel(), r.sum(0)])

    eta = start
    for _ in range(5):
        eta = eta * 2 ** (1 / 500) if grows else eta
        f, g = value(w), gradient(w)
        square = float(g @ g)
        for _ in range(100):
            point = w - eta * g
            enough = value(point) <= f - c * eta * square
            far = value(point) >= f - (1 - c) * eta * square
            if enough and far:
                break
            eta = min(2 * eta, 10.0) if enough else max(0.9 * eta, 1e-8)
        w = point
    return w


@pytest.mark.parametrize("extrapolated", [False, True])
@pytest.mark.parametrize(
    ("c", "start", "grows"),
    [(0.1, 1.0, False), (0.1, 1.0, True), (0.25, 0.01, False), (0.4, 20.0, True)],
)
@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
def test_the_federated_program_with_goldstein_clients(
    c: float, start: float, grows: bool, extrapolated: bool, executor: Executor
) -> None:
    data = json.loads(PROGRAM_DATA.read_text())
    clients = [(np.array(d["X"]), np.array(d["y"])) for d in data["data"]["clients"]]
    schedule = data["settings"]["schedule"]
    expected = literal.federated(
        clients,
        schedule,
        lambda w, own: softmax_goldstein(w, own, c, start, grows),
        1e-3 if extrapolated else None,
    )
    method = authors.fedexpsls_goldstein if extrapolated else authors.fedsls_goldstein
    algorithm = method(c=c, start=start, reset=Grow(2.0, per=500) if grows else Keep())
    module = torch.nn.Linear(4, 3, dtype=torch.float64)
    torch.nn.init.zeros_(module.weight)
    torch.nn.init.zeros_(module.bias)
    federation = Federation.of([(torch.tensor(x), torch.tensor(y)) for x, y in clients])
    task = Task(algorithm, ModuleModel(module), federation, Plan(50, 5, order=InOrder()))
    simulation = Simulation(task, 3, Given(tuple(map(tuple, schedule))), executor)
    rounds = list(simulation.run(simulation.begin(len(schedule)), Store(), len(schedule)))
    np.testing.assert_allclose(
        [s.x.numpy() for s, _ in rounds], expected["w"], rtol=1e-11, atol=1e-11
    )
    np.testing.assert_allclose(
        [s.readout.numpy() for s, _ in rounds], expected["evaluated"], rtol=1e-11, atol=1e-11
    )
    np.testing.assert_allclose([r.eta_g for _, r in rounds], expected["eta_g"], rtol=1e-11)
