"""First guesses that need about one trial a step, and what travels for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fedstep import zoo
from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.local.solver import LocalSolver
from fedstep.models.function import FunctionModel
from fedstep.models.module import ModuleModel
from fedstep.optim import Searching
from fedstep.run.simulate import Simulation
from fedstep.spec import build
from fedstep.steps.conditions import Armijo
from fedstep.steps.proposals import Parabola
from fedstep.steps.resets import Fitted, Keep
from fedstep.steps.search import LineSearch
from fedstep.steps.trial import SearchResult, aimed


def quadratics(*curvatures: float) -> tuple[FunctionModel, Federation]:
    """One client a curvature, f_i = L_i / 2 |x|^2 in two dimensions."""
    one = torch.ones(4, dtype=torch.float64)
    model = FunctionModel(
        lambda x, batch: 0.5 * batch.targets * (x**2).sum(), torch.tensor([1.0, -2.0]).double()
    )
    return model, Federation.of([(one, L * one) for L in curvatures])


def run(search: LineSearch, *curvatures: float, rounds=3, executor=None):
    model, federation = quadratics(*curvatures)
    task = Task(Algorithm(LocalSolver(search)), model, federation, Plan(4, 4))
    sim = Simulation(task, len(curvatures), executor=executor or Sequential())
    return list(sim.run(sim.begin(rounds), Store(), rounds))


def test_the_aimed_step_has_that_quotient_on_a_parabola():
    eta, slope, bend = (
        torch.tensor([0.5, 2.0]),
        torch.tensor([-3.0, -1.0]),
        torch.tensor([4.0, 0.7]),
    )
    quotient = (slope * eta + bend / 2 * eta**2) / (eta * slope)
    step = aimed(eta, quotient, 0.3)
    assert torch.allclose((slope * step + bend / 2 * step**2) / (step * slope), torch.tensor(0.3))
    assert torch.isinf(aimed(eta, torch.tensor([1.0, 1.5]), 0.3)).all()  # a line, or worse


def test_on_a_quadratic_every_search_but_the_first_takes_one_trial_at_the_fitted_step():
    L, aim = 4.0, 0.3
    search = LineSearch(Armijo(0.1), Fitted(aim), max_step=0.2, proposal=Parabola(aim))
    (_, row), *_ = run(search, L, rounds=1)
    fitted = 2 * (1 - aim) / L  # 0.35, above max_step: the cap holds
    assert row.steps == pytest.approx((0.2,) * 5)
    free = replace(search, max_step=10.0, start=0.2)
    (_, row), *_ = run(free, L, rounds=1)
    assert row.steps[4] == pytest.approx(fitted, rel=1e-12)
    assert row.forwards == 4 + 4  # one trial each
    assert row.steps[0] == pytest.approx(0.2)


def test_a_step_grows_by_no_more_than_the_factor():
    search = LineSearch(Armijo(0.1), Fitted(0.3, grow=1.5), max_step=100.0, start=0.01)
    (_, row), *_ = run(search, 1.0, rounds=1)
    assert row.steps[4] == pytest.approx(0.01 * 1.5**3, rel=1e-9)


def test_the_fitted_mean_forgets():
    reset = Fitted(0.5, memory=0.5)
    state = {"log": torch.tensor(2.0).log()}
    seen = torch.tensor(False)
    # the fitted step is 8 itself
    took = SearchResult(torch.tensor(1), torch.tensor(8.0), torch.tensor(0.5), seen)
    assert reset.after(took, state)["log"].exp() == pytest.approx(4.0)
    first = reset.after(took, {"log": torch.tensor(torch.nan)})["log"].exp()
    assert first == pytest.approx(8.0)
    failed = SearchResult(torch.tensor(9), torch.tensor(0.0), torch.tensor(torch.nan), seen)
    assert torch.isnan(reset.after(failed, state)["log"])
    null = replace(took, null=torch.tensor(True))
    assert reset.after(null, state)["log"].exp() == pytest.approx(16.0)


def test_steps_do_not_dive_where_the_loss_changes_only_within_rounding():
    weight = torch.nn.Parameter(torch.ones(1))
    search = LineSearch(Armijo(1e-4), Fitted(0.3), start=0.5, max_step=4.0)
    optimizer = Searching([weight], search)
    sizes = []
    for _ in range(8):
        optimizer.step(lambda: 1 + 1e-6 * (weight**2).sum())  # 1 in float32
        sizes.append(optimizer.param_groups[0]["lr"])
    assert sizes[:4] == [0.5, 1.0, 2.0, 4.0]
    assert sizes[-1] == 4.0


def test_a_search_that_begins_far_too_long_needs_few_trials():
    plain, quick = (
        LineSearch(Armijo(0.1), Keep(), max_step=1000.0, proposal=p) for p in (None, Parabola())
    )
    trials = [run(s, 1.0, rounds=1)[0][1].forwards - 4 for s in (plain, quick)]
    assert trials[0] > 60
    assert trials[1] <= 4 + 3  # 1000, 100, 10 and the fitted step, then one a step


def test_a_refused_trial_that_is_not_finite_is_cut_by_the_smallest_factor():
    model = FunctionModel(
        lambda x, batch: torch.where(x.abs().sum() > 5, torch.nan, 1.0) * (x**2).sum(),
        torch.ones(1).double(),
    )  # curvature 2
    federation = Federation.of([(torch.ones(1), torch.ones(1))])
    search = LineSearch(Armijo(0.1), Keep(), max_step=1000.0, proposal=Parabola(aim=0.3))
    sim = Simulation(Task(Algorithm(LocalSolver(search)), model, federation, Plan(1, 1)), 1)
    ((_, row),) = sim.run(sim.begin(1), Store(), 1)
    assert row.trials == 5  # 1000, 100, 10 not finite, 1 refused (no decrease), then the parabola's
    assert row.steps[2] == pytest.approx(0.7)


@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
def test_the_cohorts_geometric_mean_travels_with_the_model(executor):
    search = LineSearch(Armijo(0.4), Keep(), max_step=8.0, shrink=0.5, share=True)
    (server, _), (_, second), *_ = run(search, 0.9, 7.0, executor=executor)
    # accepted from 8 downwards by halves: at most 2 (1 - c) / L, which is 1.33 and 0.17: 1 and 0.125
    assert float(server.shared["step.start"]) == pytest.approx((1 * 0.125) ** 0.5)
    assert second.steps[4] == pytest.approx(
        (1 * 0.125) ** 0.5
    )  # the first client keeps the start it was sent
    assert second.bytes_down == 2 * (2 * 8 + 8)
    assert second.bytes_up == 2 * (2 * 8 + 8)


def test_without_sharing_nothing_travels():
    (server, row), *_ = run(LineSearch(Armijo(0.4), Keep(), max_step=8.0), 1.0, 8.0)
    assert server.shared == {}
    assert row.bytes_down == 2 * 2 * 8


def test_carry_and_share_exclude_each_other():
    with pytest.raises(InputError, match="carry=True, share=True"):
        LineSearch(carry=True, share=True)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Fitted(aim=1.0), "aim=1.0"),
        (lambda: Fitted(grow=1.0), "grow=1.0"),
        (lambda: Fitted(memory=1.0), "memory=1.0"),
        (lambda: Parabola(aim=0.0), "aim=0.0"),
        (lambda: Parabola(least=1.0), "least=1.0"),
    ],
)
def test_bad_settings_are_refused(make, says):
    with pytest.raises(InputError, match=says):
        make()


def test_a_small_network_needs_about_one_trial_a_step_and_learns_as_fast():
    g = torch.Generator().manual_seed(0)
    centres = torch.randn(4, 8, generator=g)
    clients = []
    for _ in range(6):
        y = torch.randint(4, (60,), generator=g)
        clients.append((centres[y] + 0.8 * torch.randn(60, 8, generator=g), y))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    ends = {}
    for name in ("fedsls", "fedsls_lean"):
        # a bold first step is where a search costs trials
        sim = Simulation(
            Task(
                build(f"{name}(max_step=10.0)"),
                ModuleModel(net),
                Federation.of(clients),
                Plan(10, 6),
            ),
            6,
        )
        ends[name] = [row for _, row in sim.run(sim.begin(15), Store(), 15)]
    late = [row.trials for row in ends["fedsls_lean"][5:]]
    assert sum(late) / len(late) <= 1.25
    assert min(row.trials for row in ends["fedsls"]) > 2
    assert ends["fedsls_lean"][-1].loss <= 1.1 * ends["fedsls"][-1].loss
    assert zoo.fedsls_lean().local.step.condition == Armijo(0.1)
