"""Other searches and Polyak's step on the clients: special cases, costs, texts."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import pytest
import torch
from problems import final, simulation

from fedstep import InputError, authors, build, zoo
from fedstep.core.types import Context
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.local.objective import Objective
from fedstep.local.terms import Proximal
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.steps.cadence import Always
from fedstep.steps.conditions import Armijo, Goldstein, ImprovedGoldstein, StrongWolfe, Wolfe
from fedstep.steps.references import Current, Grippo, Smoothed, ZhangHager
from fedstep.steps.resets import Grow, Keep, Restart

CONDITIONS = (Armijo(0.3), Goldstein(), ImprovedGoldstein(), Wolfe(), StrongWolfe(0.1, 0.5))
REFERENCES = (Current(), Grippo(3), ZhangHager(0.7))


def same(a, b, rounds=3):
    return torch.allclose(
        final(simulation(a), rounds), final(simulation(b), rounds), rtol=1e-12, atol=1e-12
    )


def with_step(algorithm, **changes):
    """The algorithm with other parts in its step rule."""
    return replace(
        algorithm, local=replace(algorithm.local, step=replace(algorithm.local.step, **changes))
    )


def test_fedsps_with_a_small_largest_step_is_fedavg():
    assert same(zoo.fedsps(max_step=1e-3), zoo.fedavg(1e-3))
    assert not same(zoo.fedsps(), zoo.fedavg(1.0))


def test_the_first_step_of_feddecsps_is_that_of_fedsps():
    ends = [
        final(simulation(m, plan=Plan(batch=4, steps=1)), 1)
        for m in (zoo.feddecsps(0.7, 2.0), zoo.fedsps(0.7, 2.0))
    ]
    assert torch.allclose(*ends, rtol=1e-12)
    assert not same(zoo.feddecsps(0.7, 2.0), zoo.fedsps(0.7, 2.0))


def test_feddecsps_counts_a_clients_steps_over_its_rounds():
    sim, store = simulation(zoo.feddecsps(), per_round=6), Store()
    list(sim.run(sim.begin(4), store, 4))
    assert {float(m["step.steps"]) for m in store.memories.values()} == {20.0}


def test_fedponos_without_memory_is_fedsls():
    ponos = with_step(zoo.fedponos(c=0.3, xi=0.0, shrink=0.8), reset=Restart())
    plain = zoo.fedsls(c=0.3, max_step=10.0, shrink=0.8, reset=Restart())
    assert same(ponos, plain)
    assert not same(zoo.fedponos(c=0.3, shrink=0.8), plain)


def test_fedsalsa_without_smoothing_and_pauses_is_fedsls():
    plain = zoo.fedsls(c=0.3, max_step=10.0, shrink=0.8, reset=Grow(1.1, per=1), carry=True)
    assert same(zoo.fedsalsa(beta=0.0, rarest=1), plain)
    assert not same(zoo.fedsalsa(beta=0.9, rarest=1), plain)


def test_fedsalsa_leaves_searches_out_once_its_steps_settle():
    reports = {}
    for name, method in {
        "settled": zoo.fedsalsa(),
        "always": with_step(zoo.fedsalsa(), cadence=Always()),
    }.items():
        sim = simulation(method, per_round=6)
        reports[name] = [row.forwards for _, row in sim.run(sim.begin(40), Store(), 40)]
    assert sum(reports["settled"][-10:]) < 0.75 * sum(reports["always"][-10:])


@pytest.mark.parametrize("reference", [Grippo(0), ZhangHager(0.0), Smoothed(0.0)])
def test_a_reference_without_memory_is_the_loss_itself(reference):
    assert same(zoo.fedsls(reference=reference), zoo.fedsls())


def test_a_goldstein_search_that_is_never_too_short_is_armijo():
    # the first trial is max_step, where too short is good enough, and the steps found below it on this task pass both lines
    armijo = zoo.fedsls(c=0.1, max_step=1e-3, reset=Keep())
    assert same(zoo.fedsls(condition=Goldstein(), max_step=1e-3, reset=Keep()), armijo)
    assert not same(
        zoo.fedsls(condition=Goldstein(0.4), reset=Keep()), zoo.fedsls(c=0.4, reset=Keep())
    )


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda c: type(c).__name__)
def test_every_mixture_does_not_depend_on_the_executor(condition, reference):
    method = zoo.fedsls(condition=condition, reference=reference, carry=True)
    runs = []
    for executor in (Sequential(), Cohort(3)):
        sim = simulation(method, executor, per_round=6)
        runs.append(list(sim.run(sim.begin(2), Store(), 2)))
    (one, rows), (two, others) = ((run[-1][0].x, [row for _, row in run]) for run in runs)
    assert torch.allclose(one, two, rtol=1e-10, atol=1e-10)
    for name in ("forwards", "backwards", "failed"):
        assert [getattr(r, name) for r in rows] == [getattr(r, name) for r in others]


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda c: type(c).__name__)
def test_every_condition_learns(condition):
    sim = simulation(zoo.fedexpsls(condition=condition, max_step=1.0), Cohort(), per_round=6)
    losses = [row.loss for _, row in sim.run(sim.begin(15), Store(), 15)]
    assert min(losses) < 0.8 * losses[0]


def linear(features=30, classes=4, sizes=(7, 12, 3, 20, 9, 15)):
    """A linear model and clients with fewer samples than features."""
    g = torch.Generator().manual_seed(1)
    clients = [
        (torch.randn(n, features, generator=g).double(), torch.randint(classes, (n,), generator=g))
        for n in sizes
    ]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        layer = torch.nn.Linear(features, classes).double()
    return ModuleModel(layer), Federation.of(clients)


METHODS = {
    "goldstein": zoo.fedsls(condition=Goldstein(0.3)),
    "improved": zoo.fedsls(condition=ImprovedGoldstein()),
    "strong wolfe": zoo.fedsls(condition=StrongWolfe(0.1, 0.3)),
    "grippo": zoo.fedsls(reference=Grippo(4)),
    "ponos": zoo.fedponos(),
    "salsa": zoo.fedsalsa(),
    "sps": zoo.fedsps(),
    "decsps": zoo.feddecsps(),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_client_in_the_span_of_its_samples_does_the_same(name):
    net, federation = linear()
    ends = []
    for executor in (Cohort(4), Cohort(4, dual=False), Sequential()):
        sim = Simulation(
            Task(METHODS[name], net, federation, Plan(batch=5, steps=6), 4), 5, executor=executor
        )
        *_, (server, row) = sim.run(sim.begin(3), Store(), 3)
        ends.append((server.x, row.forwards, row.backwards))
    for x, forwards, backwards in ends[1:]:
        assert torch.allclose(ends[0][0], x, rtol=1e-9, atol=1e-10)
        assert ends[0][1:] == (forwards, backwards)


@pytest.mark.parametrize("terms", [(), (Proximal(0.5),)], ids=["loss", "with a term"])
@pytest.mark.parametrize("kind", ["network", "linear"])
def test_slopes_along_a_ray_match_finite_differences(kind, terms):
    sim = simulation(zoo.fedsls())
    if kind == "linear":
        net, federation = linear()
        sim = replace(sim, task=replace(sim.task, model=net, federation=federation))
    task, x = sim.task, sim.begin(1).x
    index = task.batches(0, 0)[0]
    batch = task.gather(index, torch.tensor(1.0), torch.tensor(0), None, x)
    phi = Objective(Context(x + 0.1, task.model), batch, terms)
    d = torch.linspace(-1, 1, len(x), dtype=torch.float64)
    phi(x)
    ray, eta, h = phi.along(x, d), torch.tensor(0.3, dtype=torch.float64), 1e-6
    assert (ray.line is not None) == (kind == "linear")
    expected = (ray(eta + h, None) - ray(eta - h, None)) / (2 * h)
    assert torch.allclose(ray.derivative(eta, None), expected, rtol=1e-6)


def test_a_slope_costs_a_forward_and_a_backward_pass_in_the_report():
    for method in (zoo.fedsls(), zoo.fedsls(condition=StrongWolfe(0.1, 0.5))):
        sim = simulation(method, per_round=6)
        row = next(iter(sim.run(sim.begin(1), Store(), 1)))[1]
        sent = method.broadcast(sim.begin(1))
        traces = [u.trace for u in sim.executor(sim.task, sent, range(6), Store())]
        slopes, trials = (
            sum(int(t.slopes.sum()) for t in traces),
            sum(int(t.trials.sum()) for t in traces),
        )
        assert (slopes >= 6 * 5) if method.local.step.condition.asks_slope else slopes == 0
        assert row.backwards == 6 * 5 + slopes
        assert row.forwards == 6 * 5 + trials + slopes


def test_conditions_and_references_are_given_as_text():
    assert build("fedsls(reference=ZhangHager())") == zoo.fedsls(reference=ZhangHager())
    text = "fedexpsls(condition=StrongWolfe(c=0.2, c2=0.5), reference=Grippo(window=3))"
    assert build(text) == zoo.fedexpsls(condition=StrongWolfe(0.2, 0.5), reference=Grippo(3))
    assert build("fedsps(reset=Grow(factor=2.0))") == zoo.fedsps(reset=Grow(2.0))
    assert build("authors.fedsls_goldstein(c=0.25)") == authors.fedsls_goldstein(0.25)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fedsls(condition=3)", "Armijo"),
        ("fedsls(reference=Keep())", "Current"),
        ("fedsls(condition=Goldstien())", "did you mean Goldstein"),
        ("fedsls(c=0.3, condition=Goldstein())", "its own constants"),
        ("fedsls(condition=Goldstein(c=0.7))", "1/2"),
        ("fedsls(condition=Wolfe(), reference=Smoothed())", "use Armijo"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(text, message):
    with pytest.raises(InputError, match=message):
        build(text)


def test_a_client_with_one_broken_batch_goes_on():
    sim = simulation(zoo.fedsls(), per_round=6)
    x = sim.task.federation.fields[0].clone()
    x[sim.task.federation.parts[3][0]] = torch.nan
    fields = (x, sim.task.federation.fields[1])
    broken = replace(sim.task, federation=Federation(fields, sim.task.federation.parts))
    for reference in REFERENCES:
        for condition in CONDITIONS:
            task = replace(
                broken, algorithm=zoo.fedsls(condition=condition, reference=reference, carry=True)
            )
            run = replace(sim, task=task)
            rows = [row for _, row in run.run(run.begin(3), Store(), 3)]
            assert all(row.rejected == 0 for row in rows)
            assert all(row.failed <= 3 for row in rows)
            assert all(isfinite(row.loss) and row.trials > 0 for row in rows)


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda c: type(c).__name__)
def test_float32_near_a_solution_goes_on_and_wastes_few_trials(condition):
    _, federation = linear(sizes=(20,))
    halves = Federation((federation.fields[0].float(), federation.fields[1]), federation.parts)
    layer = torch.nn.utils.skip_init(torch.nn.Linear, 30, 4)
    torch.nn.init.zeros_(layer.weight), torch.nn.init.zeros_(layer.bias)
    task = Task(
        zoo.fedsls(max_step=10.0, condition=condition),
        ModuleModel(layer),
        halves,
        Plan(batch=20, steps=10),
    )
    sim = Simulation(task, 1, executor=Sequential())
    rows = [row for _, row in sim.run(sim.begin(60), Store(), 60)]
    assert rows[-1].loss < 1e-3 * rows[0].loss
    late = rows[-20:]
    assert sum(row.trials for row in late) / len(late) < 8
