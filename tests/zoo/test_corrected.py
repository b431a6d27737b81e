"""Corrections: their special cases, and how they go together with a line search and with extrapolation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from problems import federation, final, model, simulation

from fedstep import InputError, zoo
from fedstep.core.vec import dot, norm_sq
from fedstep.corrections.contrast import Contrast
from fedstep.corrections.dynamic import Dynamic
from fedstep.corrections.normalised import Normalised
from fedstep.corrections.prototypes import Prototypes
from fedstep.corrections.server_statistics import BothMoments, FirstMoment
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.local.directions import Momentum
from fedstep.local.newton import Newton
from fedstep.local.preconditioned import Rescaled
from fedstep.run.simulate import Simulation
from fedstep.server.rules import Extrapolate
from fedstep.server.sampling import Given
from fedstep.steps.fixed import Divided
from fedstep.steps.rule import StepRule
from fedstep.steps.search import LineSearch

ALL = Plan(batch=100, steps=4)  # every batch is all of a client's samples
EPOCHS = Plan(batch=4, steps=None, epochs=2)
CORRECTED = {
    "fednova": zoo.fednova(),
    "scaffold, option 1": zoo.scaffold(option=1),
    "scaffold, option 2": zoo.scaffold(),
    "feddyn": zoo.feddyn(),
    "fedlin": zoo.fedlin(),
    "feddane": zoo.feddane(),
    "mime": zoo.mime(),
    "mimelite": zoo.mimelite(),
    "mime, Adam": zoo.mime_adam(),
    "mimelite, Adam": zoo.mimelite_adam(),
    "moon": zoo.moon(),
    "fedproto": zoo.fedproto(),
    "fedproto, averaged": zoo.fedproto(personal=False),
}
corrected = pytest.mark.parametrize("name", CORRECTED)


def same(a, b, rounds=3, **how):
    ends = [final(simulation(m, **how), rounds) for m in (a, b)]
    return torch.allclose(*ends, rtol=1e-11, atol=1e-12)


def searching(algorithm, step=None):
    return replace(algorithm, local=replace(algorithm.local, step=step or LineSearch()))


# Special cases


def test_fednova_with_equal_steps_is_fedavg_and_with_unequal_steps_is_not():
    assert same(zoo.fednova(0.3), zoo.fedavg(0.3))
    assert not same(zoo.fednova(0.3), zoo.fedavg(0.3), plan=EPOCHS)


def test_fednova_with_equal_steps_momentum_and_prox_is_fedavg_with_them():
    plain = zoo.fedprox(0.1, 0.5)
    plain = replace(plain, local=replace(plain.local, direction=Momentum(0.6)))
    assert same(zoo.fednova(0.1, momentum=0.6, mu=0.5), plain)


def test_fednova_with_equal_steps_under_extrapolation_is_fedexp():
    nova = replace(zoo.fednova(0.3), server=Extrapolate(0.0))
    assert same(nova, zoo.fedexp(0.3, eps=0.0))


@pytest.mark.parametrize("option", [1, 2])
def test_scaffold_begins_as_fedavg_and_leaves_it(option):
    assert same(zoo.scaffold(0.3, option), zoo.fedavg(0.3), rounds=1)
    assert not same(zoo.scaffold(0.3, option), zoo.fedavg(0.3), rounds=3)


def test_scaffold_with_one_client_that_is_all_is_sgd():
    fed = federation()
    alone = Federation(fed.fields, (fed.parts[3],))
    ends = [
        final(Simulation(Task(m, model(), alone, ALL), 1), 4)
        for m in (zoo.scaffold(0.3), zoo.fedavg(0.3))
    ]
    assert torch.allclose(*ends, rtol=1e-12, atol=1e-12)


def test_scaffold_exp_with_a_huge_eps_is_scaffold():
    assert same(zoo.scaffold_exp(0.3, eps=1e9), zoo.scaffold(0.3))
    assert not same(zoo.scaffold_exp(0.3, eps=0.0), zoo.scaffold(0.3), rounds=20)


def test_first_round_of_feddyn_with_all_clients_is_fedprox_with_server_step_two():
    assert same(zoo.feddyn(0.1, 0.7), zoo.fedprox(0.1, 0.7, server_step=2.0), rounds=1, per_round=6)
    half = zoo.fedprox(0.1, 0.7, server_step=1.5)  # h / alpha = -|S|/N D
    assert same(zoo.feddyn(0.1, 0.7), half, rounds=1, per_round=3)


def test_fedlin_with_one_step_on_all_samples_is_gradient_descent():
    sim = simulation(zoo.fedlin(0.3), plan=replace(ALL, steps=1), per_round=6)
    net, x = model(), model().init()
    inputs, targets = federation().fields
    for _ in range(3):
        x = x.detach().requires_grad_()
        logits = torch.func.functional_call(net.module, net.parameters(x), (inputs,))
        losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        f = torch.stack([losses[part].mean() for part in federation().parts]).mean()
        x = x - 0.3 * torch.autograd.grad(f, x)[0]
    assert torch.allclose(final(sim), x, rtol=1e-12, atol=1e-12)


def test_fedlin_divides_its_step_by_the_number_of_local_steps():
    assert same(zoo.fedlin(0.5, divide=True), zoo.fedlin(0.1))  # five local steps
    assert not same(zoo.fedlin(0.5, divide=True), zoo.fedlin(0.1), plan=EPOCHS)


def test_feddane_without_prox_and_with_all_clients_is_fedlin():
    assert same(zoo.feddane(0.2, mu=0.0), zoo.fedlin(0.2), per_round=6)
    assert not same(
        zoo.feddane(0.2, mu=0.0), zoo.fedlin(0.2), per_round=3
    )  # other clients are asked


def test_mime_without_momentum_on_all_samples_is_fedlin():
    assert same(zoo.mime(0.2, beta=0.0), zoo.fedlin(0.2), plan=ALL)
    assert not same(zoo.mime(0.2, beta=0.0), zoo.fedlin(0.2))
    assert not same(zoo.mime(0.2, beta=0.5), zoo.fedlin(0.2), plan=ALL)


def test_mimelite_without_momentum_is_fedavg():
    assert same(zoo.mimelite(0.2, beta=0.0), zoo.fedavg(0.2))
    assert not same(zoo.mimelite(0.2, beta=0.5), zoo.fedavg(0.2))


@pytest.mark.parametrize(
    ("adam", "plain"), [(zoo.mime_adam, zoo.mime), (zoo.mimelite_adam, zoo.mimelite)]
)
def test_first_round_of_adam_statistics_is_that_of_momentum(adam, plain):
    assert same(adam(0.2, eps=1.0), plain(0.1), rounds=1)  # v is 1
    assert not same(adam(0.2, eps=1.0), plain(0.1))


def test_moon_without_its_term_is_fedavg_as_is_its_first_round():
    assert same(zoo.moon(0.2, mu=0.0), zoo.fedavg(0.2))
    assert same(zoo.moon(0.2, mu=5.0), zoo.fedavg(0.2), rounds=1)
    assert not same(zoo.moon(0.2, mu=5.0), zoo.fedavg(0.2))


def test_fedproto_without_its_term_and_with_averaging_is_fedavg():
    assert same(zoo.fedproto(0.2, weight=0.0, personal=False), zoo.fedavg(0.2))
    assert not same(zoo.fedproto(0.2, weight=5.0, personal=False), zoo.fedavg(0.2))


def test_personal_models_do_not_read_the_servers():
    sim = simulation(zoo.fedproto(0.2, weight=0.0), per_round=6)
    alg, store = sim.task.algorithm, Store()
    server = sim.begin(2)
    list(sim.executor(sim.task, alg.broadcast(server), range(6), store))
    gone = store.memories[2]["gone"]
    far = replace(alg.broadcast(server), x=server.x + 100.0)
    list(sim.executor(sim.task, replace(far, round=1), range(6), store))
    assert (store.memories[2]["gone"] - gone).norm() < 5


def test_a_client_that_joins_late_starts_from_its_own_first_model():
    sim = replace(
        simulation(zoo.fedproto(0.2, weight=0.0)), sampling=Given(((0, 1), (0, 1), (2, 3)))
    )
    begin, store = sim.begin(3), Store()
    first = begin.x
    *_, (late, _) = sim.run(begin, store, 2)
    assert not torch.allclose(late.x, first, atol=1e-3)
    ctx = sim.task.algorithm.broadcast(late).context(
        store.load(sim.task, sim.task.algorithm.broadcast(late), [2]), sim.task.model
    )
    assert torch.equal(sim.task.algorithm.correction.start(ctx)[0], first)


# With a line search


@dataclass(frozen=True)
class Witness(StepRule):
    """A line search whose accepted steps are checked against Armijo's condition on `function`."""

    function: object
    inner: LineSearch = LineSearch(max_step=10.0)  # long enough for refusals

    def init(self, x):
        return self.inner.init(x)

    def search(self, phi, x, f, g, d, state):
        out, state = self.inner.search(phi, x, f, g, d, state)
        before, after = (self.function(phi, at) for at in (x, x + out.step.unsqueeze(-1) * d))
        taken = out.step > 0
        bound = before + self.inner.condition.c * out.step * dot(g, d)
        assert bool((after <= bound + 1e-12)[taken].all())
        assert torch.allclose(before, f, rtol=1e-12)
        assert bool(taken.any())
        return out, state


def of_phi(phi, x):
    with torch.no_grad():
        return phi(x)


def tilted(phi, x):
    """f(x) + <c - c_i, x>, by hand."""
    with torch.no_grad():
        f = phi.ctx.forward(x, phi.batch).loss
        return f + (
            (phi.ctx.shared.correction["control"] - phi.ctx.memory.correction["control"]) * x
        ).sum(-1)


@corrected
@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
def test_a_correction_goes_with_a_line_search(name, executor):
    sim = simulation(searching(CORRECTED[name], Witness(of_phi)), executor)
    rows = [row for _, row in sim.run(sim.begin(3), Store(), 3)]
    assert rows[-1].trials > 1
    assert rows[-1].steps[4] > 0


@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
@pytest.mark.parametrize("option", [1, 2])
def test_accepted_steps_of_scaffold_satisfy_armijo_on_the_tilted_function(option, executor):
    sim = simulation(searching(zoo.scaffold(option=option), Witness(tilted)), executor)
    assert torch.isfinite(final(sim, 4)).all()


def test_control_of_a_searched_round_is_the_mean_gradient_by_the_steps_taken():
    sim = simulation(searching(zoo.scaffold()))
    store = Store()
    (update,) = sim.executor(sim.task, sim.task.algorithm.broadcast(sim.begin(1)), [3], store)
    mean = -update.aggregate.delta / update.trace.sizes.sum()
    assert torch.allclose(store.memories[3]["control"], mean, rtol=1e-12)


def test_a_client_that_takes_no_step_keeps_its_control():
    sim = simulation(zoo.scaffold(0.0))
    store = Store()
    store.save([3], {"control": torch.ones(1, model().dim, dtype=torch.float64)})
    (update,) = sim.executor(sim.task, sim.task.algorithm.broadcast(sim.begin(1)), [3], store)
    assert torch.equal(store.memories[3]["control"], torch.ones(model().dim, dtype=torch.float64))
    assert torch.equal(
        update.aggregate.message["control"], torch.zeros(model().dim, dtype=torch.float64)
    )


# With extrapolation


def parts_of(algorithm, x, updates, shared):
    """Every client's part of the direction, by hand."""
    deltas = [u.aggregate.delta for u in updates]
    if isinstance(algorithm.correction, Normalised):
        lengths = [u.trace.sizes.sum() for u in updates]
        return [
            sum(lengths) / len(lengths) * d for d in deltas
        ]  # deltas are divided by the lengths already
    if isinstance(algorithm.correction, Dynamic):
        return [d - shared["dual"] / algorithm.correction.alpha for d in deltas]
    return deltas


@corrected
def test_a_correction_goes_with_extrapolation(name):
    algorithm = replace(CORRECTED[name], server=Extrapolate(0.0, min_step=0.0))
    sim = simulation(algorithm, plan=EPOCHS)
    server, store = sim.begin(3), Store()
    for _ in range(3):
        cohort = sim.sampling(6, 4, sim.task.seed, server.round)
        before, kept = server, Store({c: dict(m) for c, m in store.memories.items()})
        server, row = next(sim.run(server, store, server.round + 1))
        if not algorithm.correction.probes:
            updates = list(
                sim.executor(sim.task, sim.task.algorithm.broadcast(before), cohort, kept)
            )
            parts = parts_of(sim.task.algorithm, before.x, updates, server.shared)
            mean = sum(parts) / len(parts)
            expected = sum(norm_sq(p) for p in parts) / len(parts) / (2 * norm_sq(mean))
            assert row.eta_g == pytest.approx(float(expected), rel=1e-10)
        assert row.eta_g >= 0.5 - 1e-12  # Jensen: the parts' mean is the direction
    assert torch.isfinite(server.x).all()


# What it costs, and what is refused


@pytest.mark.parametrize(
    "method", [zoo.fedlin, zoo.feddane, zoo.mimelite, partial(zoo.scaffold, option=1)]
)
def test_a_client_without_a_gradient_at_the_anchor_is_left_out_and_comes_back(method):
    fed = federation()
    inputs = fed.fields[0].clone()
    inputs[fed.parts[3][:2]] = torch.nan  # two of twenty samples: a search skips their batches
    broken = simulation(searching(method()), per_round=6)
    broken = replace(
        broken, task=replace(broken.task, federation=Federation((inputs, fed.fields[1]), fed.parts))
    )
    store, server = Store(), broken.begin(3)
    for _ in range(2):
        server, row = next(broken.run(server, store, server.round + 1))
        assert (row.clients, row.rejected) == (5, 1)
    mended = simulation(searching(method()), per_round=6)
    server, row = next(mended.run(server, store, 3))
    assert (row.clients, row.rejected) == (6, 0)
    assert torch.isfinite(server.x).all()


def test_passes_are_counted():
    def passes(algorithm):
        sim = simulation(algorithm, per_round=6)
        row = next(iter(sim.run(sim.begin(1), Store(), 1)))[1]
        return row.forwards, row.backwards

    probe = sum(-(-n // 4) for n in (7, 12, 3, 20, 9, 15))
    assert passes(zoo.fedavg()) == passes(zoo.scaffold()) == passes(zoo.feddyn()) == (30, 30)
    assert (
        passes(zoo.fedlin())
        == passes(zoo.mimelite())
        == passes(zoo.scaffold(option=1))
        == (30 + probe, 30 + probe)
    )
    assert passes(zoo.mime()) == (60 + probe, 60 + probe)
    assert passes(zoo.moon()) == (90, 30)


def test_bytes_are_counted():
    vector = 8 * model().dim

    def vectors(algorithm):
        sim = simulation(algorithm, per_round=6)
        row = next(iter(sim.run(sim.begin(1), Store(), 1)))[1]
        return row.bytes_up / vector / 6, row.bytes_down / vector / 6

    assert vectors(zoo.fedavg()) == vectors(zoo.moon()) == vectors(zoo.feddyn()) == (1, 1)
    assert (
        vectors(zoo.scaffold()) == vectors(zoo.scaffold(option=1)) == (2, 2)
    )  # the probe of option 1 is not sent
    assert vectors(zoo.mimelite()) == (2, 2)
    assert vectors(zoo.fedlin())[0] == vectors(zoo.mime())[0] == 2


def test_impossible_settings_are_refused():
    for make in (
        lambda: Normalised(momentum=1.0),
        lambda: Normalised(mu=-1.0),
        lambda: Dynamic(0.0),
        lambda: FirstMoment(1.0),
        lambda: BothMoments(beta2=-0.1),
        lambda: Rescaled(0.0),
        lambda: Contrast(-1.0),
        lambda: Contrast(temperature=0.0),
        lambda: Prototypes(-1.0),
        lambda: Divided(-1.0),
        lambda: zoo.scaffold(option=3),
        lambda: Prototypes().shared_init(torch.zeros(3)),
    ):
        with pytest.raises(InputError):
            make()


@pytest.mark.parametrize("executor", [Sequential(), Cohort()], ids=["sequential", "cohort"])
def test_newton_clients_count_the_samples_of_the_steps_they_take_and_no_others(executor):
    clients = replace(zoo.fedproto(personal=False), local=Newton(tolerance=0.01, steps=20))
    sim = simulation(clients, executor=executor, plan=Plan(batch=20, steps=1))
    sent = sim.task.algorithm.broadcast(sim.begin(1))
    updates = list(sim.executor(sim.task, sent, [0, 1, 2], Store()))
    steps = torch.cat([update.trace.live.sum(-1).reshape(-1) for update in updates])
    counted = sum(float(update.aggregate.message["known"].sum()) for update in updates)
    sizes = torch.tensor([sim.task.federation.size(client) for client in (0, 1, 2)])
    assert (steps < 20).all()  # all came to rest before the last step
    assert len(set(steps.tolist())) > 1  # and not together
    assert counted == float((steps * sizes).sum())
