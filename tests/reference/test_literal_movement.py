"""How clients move, written out in numpy from the papers and programs, against the library.

One or more clients with f = mean (a w - b)^2, batches of 3 in the order of the data.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf, sqrt

import numpy as np
import pytest
import torch

from fedstep import zoo
from fedstep.algorithm import Algorithm
from fedstep.core.seeds import generator
from fedstep.core.types import Batch, Context
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.local.moves import Inertia, Nesterov, Straight
from fedstep.local.objective import Objective
from fedstep.local.oracles import TwoPoint
from fedstep.local.preconditioned import Adagrad, Adam, AMSGrad, Preconditioned, RMSProp
from fedstep.local.solver import LocalSolver
from fedstep.local.stale import Stale
from fedstep.models.function import FunctionModel
from fedstep.run.simulate import Simulation
from fedstep.server.sampling import Given
from fedstep.steps.conditions import Armijo
from fedstep.steps.distance import DistanceOverGradients
from fedstep.steps.fixed import Constant
from fedstep.steps.resets import Grow, Keep
from fedstep.steps.search import LineSearch

DIM, K = 4, 8


def clients(count=1):
    rng = np.random.default_rng(3)
    return [(rng.standard_normal((9, DIM)), rng.standard_normal(9)) for _ in range(count)]


def rows(k):
    return slice(3 * (k % 3), 3 * (k % 3) + 3)


def loss(a, b, w):
    return float(np.mean((a @ w - b) ** 2))


def gradient(a, b, w):
    return 2 * a.T @ (a @ w - b) / len(b)


def simulate(algorithm, data, rounds=1, executor=None, steps=K):
    model = FunctionModel(
        lambda x, batch: (batch.inputs @ x - batch.targets) ** 2, torch.full((DIM,), 0.5).double()
    )
    federation = Federation.of([(torch.tensor(a), torch.tensor(b)) for a, b in data])
    task = Task(algorithm, model, federation, Plan(3, steps, order=InOrder()), seed=11)
    everyone = (tuple(range(len(data))),) * rounds
    sim = Simulation(task, len(data), Given(everyone), executor or Sequential())
    *_, (server, _) = sim.run(sim.begin(rounds), Store(), rounds)
    return task, server


def armijo(a, b, w, g, d, eta, c=0.1, shrink=0.9):
    """The first of eta, shrink eta, ... that decreases enough along d."""
    while not loss(a, b, w + eta * d) <= loss(a, b, w) + c * eta * float(g @ d):
        eta *= shrink
    return eta


def search(reset=Keep(), start=2.0):
    return LineSearch(Armijo(0.1), reset, max_step=inf, start=start, slack=0.0)


@pytest.mark.parametrize("beta", [0.0, 0.6, 0.9])
def test_polyak_momentum_behind_the_search(beta):
    ((a, b),) = clients()
    w, before, eta = np.full(DIM, 0.5), np.full(DIM, 0.5), 2.0
    for k in range(K):
        g = gradient(a[rows(k)], b[rows(k)], w)
        eta = armijo(a[rows(k)], b[rows(k)], w, g, -g, eta)
        w, before = w - eta * g + beta * (w - before), w
    _, server = simulate(Algorithm(LocalSolver(search(), move=Inertia(beta))), clients())
    assert np.allclose(server.x.numpy(), w, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["adagrad", "rmsprop", "adam", "amsgrad"])
@pytest.mark.parametrize("variant", ["momentum", "heavy ball", "plain", "none"])
def test_preconditioned_searches(kind, variant):
    ((a, b),) = clients()
    beta, mu, eps = 0.9, 0.8, 1e-8
    w, v, top, m, eta = np.full(DIM, 0.5), np.zeros(DIM), np.zeros(DIM), np.zeros(DIM), 0.5
    last = w
    for k in range(K):
        at, bt = a[rows(k)], b[rows(k)]
        g = gradient(at, bt, w)
        v = v + g**2 if kind == "adagrad" else beta * v + (1 - beta) * g**2
        top, m = np.maximum(top, v), mu * m + (1 - mu) * g
        read = {
            "adagrad": v,
            "rmsprop": v,
            "adam": v / (1 - beta ** (k + 1)),
            "amsgrad": top / (1 - beta ** (k + 1)),
        }
        p = 1 / (np.sqrt(read[kind]) + eps)
        d = -g if variant == "plain" else -p * g
        eta = armijo(at, bt, w, g, d, eta * 2 ** (1 / 5))
        with_momentum = variant == "momentum" and kind in ("adam", "amsgrad")
        y = w - eta * p * (m / (1 - mu ** (k + 1)) if with_momentum else g)
        w, last = (y + mu * (y - last) if variant == "heavy ball" else y), y
    momentum = mu if variant == "momentum" else 0.0
    parts = {
        "adagrad": Adagrad(),
        "rmsprop": RMSProp(beta),
        "adam": Adam(beta, momentum),
        "amsgrad": AMSGrad(beta, momentum),
    }
    direction = Preconditioned(parts[kind], eps, variant == "plain")
    move = Nesterov(mu) if variant == "heavy ball" else Straight()
    _, server = simulate(
        Algorithm(LocalSolver(search(Grow(2.0, per=5), 0.5), direction, move=move)), clients()
    )
    assert np.allclose(server.x.numpy(), w, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
def test_fafed_in_three_rounds(executor):
    data, eta, a_, beta, rho = clients(3), 0.05, 0.3, 0.9, 0.2
    x, m_bar, v_bar, scale = np.full(DIM, 0.5), None, np.zeros(DIM), np.ones(DIM)
    for _ in range(3):
        ends = []
        for a, b in data:
            w, m, v = x, m_bar, v_bar
            for k in range(K):
                at, bt = a[rows(k)], b[rows(k)]
                m = gradient(at, bt, w) if m is None else m
                new = w - eta * m / scale
                g = gradient(at, bt, new)
                m = g + (1 - a_) * (m - gradient(at, bt, w))
                v, w = beta * v + (1 - beta) * g**2, new
            ends.append((w, m, v))
        x, m_bar, v_bar = (np.mean([e[j] for e in ends], 0) for j in range(3))
        scale = np.sqrt(v_bar) + rho
    _, server = simulate(zoo.fafed(eta, a_, beta, rho), data, 3, executor)
    assert np.allclose(server.x.numpy(), x, rtol=1e-12, atol=1e-12)
    assert np.allclose(server.shared["move.m"].numpy(), m_bar, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("torn", [True, False])
@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
def test_stale_gradients_of_shared_memory(torn, executor):
    data, eta, workers = clients(2), 0.05, 3
    task, server = simulate(zoo.fedlocalasync(eta, workers, torn), data, 1, executor)
    ends, ages_seen = [], set()
    for i, (a, b) in enumerate(data):
        path = [np.full(DIM, 0.5)]
        for k in range(K):
            draw = generator(task.step_seed(i, 0, k), "age")
            ages = torch.randint(workers, (DIM if torn else 1,), generator=draw).numpy()
            ages_seen |= set(ages.tolist())
            view = np.array([path[max(0, k - int(ages[j if torn else 0]))][j] for j in range(DIM)])
            path.append(path[-1] - eta * gradient(a[rows(k)], b[rows(k)], view))
        ends.append(path[-1])
    assert ages_seen == {0, 1, 2}
    assert np.allclose(server.x.numpy(), np.mean(ends, 0), rtol=1e-12, atol=1e-12)


def test_dog_keeps_its_state_from_round_to_round():
    data, reach, eps = clients(2), 1e-3, 1e-8
    start = np.full(DIM, 0.5)
    x, far, total = start, [reach * (1 + sqrt(start @ start))] * 2, [eps] * 2
    for _ in range(3):
        ends = []
        for i, (a, b) in enumerate(data):
            w = x
            for k in range(K):
                g = gradient(a[rows(k)], b[rows(k)], w)
                far[i] = max(far[i], sqrt((w - start) @ (w - start)))
                total[i] += g @ g
                w = w - far[i] / sqrt(total[i]) * g
            ends.append(w)
        x = np.mean(ends, 0)
    _, server = simulate(Algorithm(LocalSolver(DistanceOverGradients(reach))), data, 3)
    assert np.allclose(server.x.numpy(), x, rtol=1e-12, atol=1e-12)
    _, fresh = simulate(Algorithm(LocalSolver(DistanceOverGradients(reach, carry=False))), data, 3)
    assert not np.allclose(fresh.x.numpy(), x, rtol=1e-6)


def test_dog_with_a_first_step_begins_with_it():
    ((a, b),) = clients()
    start, w, far, total = np.full(DIM, 0.5), np.full(DIM, 0.5), 0.0, 1e-8
    for k in range(K):
        g = gradient(a[rows(k)], b[rows(k)], w)
        far, total = max(far, sqrt((w - start) @ (w - start))), total + g @ g
        w = w - (0.02 if k == 0 else far / sqrt(total)) * g
    _, server = simulate(zoo.feddog(first=0.02), clients())
    assert np.allclose(server.x.numpy(), w, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("directions", "radius"), [(5, 1e-3), (1, 0.3)])
def test_two_point_estimate_is_the_sum_over_its_directions(directions, radius):
    ((a, b),) = clients()
    x = torch.linspace(-1, 1, DIM, dtype=torch.float64)
    model = FunctionModel(lambda x, batch: (batch.inputs @ x - batch.targets) ** 2, x)
    batch = Batch((torch.tensor(a), torch.tensor(b)), torch.tensor(1.0), torch.tensor(77))
    f, g = TwoPoint(directions, radius)(Objective(Context(x, model), batch), x)
    u = torch.randn(
        (directions, DIM), generator=generator(77, "directions"), dtype=torch.float64
    ).numpy()
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    w = x.numpy()
    wanted = sum(
        DIM / (directions * radius) * (loss(a, b, w + radius * v) - loss(a, b, w)) * v for v in u
    )
    assert np.allclose(g.numpy(), wanted, rtol=1e-9, atol=1e-12)
    assert float(f) == pytest.approx(loss(a, b, w), rel=1e-14)


def test_two_point_estimate_with_many_directions_is_the_gradient():
    ((a, b),) = clients()
    x = torch.linspace(-1, 1, DIM, dtype=torch.float64)
    model = FunctionModel(lambda x, batch: (batch.inputs @ x - batch.targets) ** 2, x)
    batch = Batch((torch.tensor(a), torch.tensor(b)), torch.tensor(1.0), torch.tensor(5))
    _, g = TwoPoint(4000, 1e-5)(Objective(Context(x, model), batch), x)
    true = gradient(a, b, x.numpy())
    assert np.linalg.norm(g.numpy() - true) < 4 * sqrt(DIM / 4000) * np.linalg.norm(
        true
    )  # its standard error, four times


def test_zeroth_order_clients_count_forward_passes_only():
    data = clients(2)
    task, _ = simulate(zoo.fedzo(0.01, directions=5), data)
    sim = Simulation(task, 2, Given(((0, 1),)))
    ((_, row),) = sim.run(sim.begin(1), Store(), 1)
    assert (row.forwards, row.backwards) == (2 * K * 6, 0)


def test_one_worker_is_fedavg_to_the_bit():
    data = clients(3)
    for executor in (Sequential(), Cohort()):
        one, avg = (
            simulate(m, data, 3, executor)[1].x
            for m in (zoo.fedlocalasync(0.05, 1), zoo.fedavg(0.05))
        )
        assert torch.equal(one, avg)


def test_stale_history_holds_the_last_points():
    move, x = Stale(3), torch.zeros(2, 1)
    state = move.init(x)
    for k in range(1, 5):
        x, state = move(x, torch.ones(2), torch.ones(2, 1), lambda v: v, state)
        assert torch.equal(x, torch.full((2, 1), float(k)))
    assert state["past"][0, :, 0].tolist() == [4.0, 3.0, 2.0]


def test_costs_of_a_look_elsewhere_are_counted():
    task, _ = simulate(zoo.fafed(0.05), clients(2))
    sim = Simulation(task, 2, Given(((0, 1),)))
    ((_, row),) = sim.run(sim.begin(1), Store(), 1)
    assert (row.forwards, row.backwards) == (2 * K * 2, 2 * K * 2)
    assert row.bytes_up == 2 * 8 * (3 * DIM + 1)  # delta, m, v and whether they are known


def test_momentum_of_a_constant_step_is_the_direction_momentum():
    from fedstep.local.directions import Momentum

    data = clients(2)
    behind = Algorithm(LocalSolver(Constant(0.03), move=Inertia(0.7)))
    ahead = Algorithm(LocalSolver(Constant(0.03), Momentum(0.7)))
    ends = [simulate(m, data, 2)[1].x for m in (behind, ahead)]
    assert torch.allclose(*ends, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("decay", "momentum"), [(0.0, 0.0), (0.3, 0.0), (0.3, 0.8)])
def test_frank_wolfe_steps_shorter_than_the_longest(decay, momentum):
    ((a, b),) = clients()
    eta, eps, w, z, gammas = 0.5, 1e-5, np.full(DIM, 0.5), np.zeros(DIM), []
    for k in range(K):
        at, bt = a[rows(k)], b[rows(k)]
        g, r = gradient(at, bt, w), decay * w
        gamma = min(1.0, max(0.0, (loss(at, bt, w) - eta * g @ r) / (eta * g @ g + eps)))
        z = momentum * z - eta * gamma * (g + r)
        w = w - eta * (r + gamma * g) + momentum * z
        gammas.append(gamma)
    _, server = simulate(zoo.feddfw(eta, decay, momentum, eps), clients())
    assert min(gammas) < 0.9
    assert np.allclose(server.x.numpy(), w, rtol=1e-12, atol=1e-12)


def test_dog_remembers_the_farthest_point():
    ((a, b),) = clients()
    start, w, far, total, distances = np.full(DIM, 0.5), np.full(DIM, 0.5), 0.0, 1e-8, []
    for k in range(K):
        g = gradient(a[rows(k)], b[rows(k)], w) + 0.1 * w  # weight decay is part of the gradient
        distances.append(sqrt((w - start) @ (w - start)))
        far, total = (
            max(far, distances[-1], 0.1 * (1 + sqrt(start @ start)) if k == 0 else 0),
            total + g @ g,
        )
        w = w - 2 * far / sqrt(total) * g
    assert any(later < earlier for earlier, later in pairwise(distances))
    _, server = simulate(zoo.feddog(0.1, scale=2.0, weight_decay=0.1), clients())
    assert np.allclose(server.x.numpy(), w, rtol=1e-12, atol=1e-12)


def test_the_zeroth_order_oracle_leaves_the_output_at_x_behind():
    ((a, b),) = clients()
    x = torch.linspace(-1, 1, DIM, dtype=torch.float64)
    model = FunctionModel(lambda x, batch: (batch.inputs @ x - batch.targets) ** 2, x)
    batch = Batch((torch.tensor(a), torch.tensor(b)), torch.tensor(1.0), torch.tensor(5))
    phi = Objective(Context(x, model), batch)
    f, _ = TwoPoint(3, 0.5)(phi, x)
    assert torch.equal(phi.output.loss, f)
