"""What the servers, codecs, proximal points and Newton steps reduce to, and how they meet the edges."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import SIZES, federation, final, model, simulation

from fedstep import InputError, build, zoo
from fedstep.core.aggregate import Aggregate
from fedstep.corrections.envelope import Envelope
from fedstep.data.federation import Federation
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Cohort, Store, Task
from fedstep.execute.gram_cache import dual_form_fits
from fedstep.local.newton import Newton, conjugate_gradients
from fedstep.local.terms import Proximal
from fedstep.models.function import FunctionModel
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.server.codecs import ErrorFeedback, Plain, ScaledSign, TopK
from fedstep.server.moments import Adaptive, Average, Peak
from fedstep.server.program_variants import FlowerAdam
from fedstep.server.readouts import Polynomial
from fedstep.server.step_sizes import DistanceOverSum, Diversity, EnvelopePolyak, Hypergradient
from fedstep.steps.fixed import Constant
from fedstep.steps.tuned import Tuned

EPOCH = Plan(4, None, 1)
RULES = [
    Diversity(),
    EnvelopePolyak(),
    Hypergradient(),
    Hypergradient(-0.2, 4.0, 0.9),
    DistanceOverSum(),
    DistanceOverSum(1e-6),
    Peak(),
    Peak(floor=False, eps=0.0),
    FlowerAdam(tau=0.0),
    Adaptive(Average(), tau=0.0, start=0.0),
]


def same(a, b, rounds=3, plan=None, close=1e-12):
    ends = [final(simulation(m, plan=plan), rounds) for m in (a, b)]
    return torch.allclose(*ends, rtol=close, atol=close)


def total(deltas, envelope=0.0):
    """The aggregate of some clients' deltas."""
    d = torch.tensor(deltas, dtype=torch.float64)
    return Aggregate.of(
        d, {"envelope": torch.full((len(d),), envelope, dtype=torch.float64)}, torch.ones(len(d))
    )


def step(rule, deltas, state=None, envelope=0.0):
    agg = total(deltas, envelope)
    x = torch.zeros_like(agg.delta)
    return rule.update(x, agg.mean(agg.delta), agg, rule.init(x) if state is None else state)


# Proximal points


def test_fedexprox_with_server_step_one_is_fedprox_solved_by_many_small_steps():
    plan = Plan(
        20, 300, order=InOrder()
    )  # every client's samples in one batch: long gradient descent
    descent = final(simulation(zoo.fedprox(0.8, mu=0.5), plan=plan, executor=Cohort()), 1)
    assert torch.allclose(
        final(simulation(zoo.fedexprox(2.0), plan=Plan(20, 1)), 1), descent, rtol=1e-8, atol=1e-8
    )


def test_diversity_of_equal_deltas_is_one_and_grads_then_is_fedprox():
    assert step(Diversity(), [[0.3, -1.0]] * 3).eta_g == pytest.approx(1, rel=1e-15)
    fed = federation()
    twins = Federation(fed.fields, (fed.parts[3], fed.parts[3]))
    grads, plain = (
        final(Simulation(Task(m, model(), twins, Plan(20, 1)), 2))
        for m in (zoo.fedexprox_grads(), zoo.fedexprox())
    )
    assert torch.allclose(grads, plain, rtol=1e-12, atol=1e-12)


@given(st.lists(st.lists(st.floats(-10, 10), min_size=2, max_size=2), min_size=1, max_size=5))
def test_diversity_is_at_least_one(deltas):
    assert step(Diversity(), deltas).eta_g >= 1 - 1e-9


def test_stops_goes_half_of_the_way_to_the_minimum_of_one_round_bowl():
    start = torch.tensor([4.0, -2.0], dtype=torch.float64)
    bowl = FunctionModel(lambda x, batch: 1.5 * (x**2).sum() + 0 * batch.inputs.sum(), start)
    alone = Federation.of([(torch.zeros(1, 1, dtype=torch.float64), torch.zeros(1))])
    sim = Simulation(Task(zoo.fedexprox_stops(0.7), bowl, alone, Plan(1, 1)), 1)
    assert torch.allclose(final(sim, 2), start / 4, rtol=1e-12)


def test_a_mixture_of_proximal_points_and_extrapolation_runs():
    mixture = replace(zoo.fedexp(), local=zoo.fedexprox().local)
    assert torch.isfinite(final(simulation(mixture, plan=EPOCH))).all()
    assert not same(mixture, zoo.fedexp())


# Newton


def test_newton_minimises_to_its_tolerance_in_blocks_of_unequal_clients():
    for executor in (None, Cohort()):
        sim = simulation(zoo.fedexprox(0.5), executor, plan=EPOCH, per_round=6)
        sent = sim.task.algorithm.broadcast(sim.begin(1))
        net, fed = sim.task.model, sim.task.federation
        jobs = list(sim.executor(sim.task, sent, list(range(6)), Store()))
        assert not any(bool(u.trace.failed.any()) for u in jobs)
        for client in range(6):
            x, y = (f[fed.parts[client]] for f in fed.fields)
            one = replace(
                sim,
                task=replace(sim.task, federation=Federation(fed.fields, (fed.parts[client],))),
                per_round=1,
            )
            point = final(one, 1).requires_grad_()
            module = net.load(point.detach())
            loss = torch.nn.functional.cross_entropy(module(x), y)
            g = torch.cat(
                [p.reshape(-1) for p in torch.autograd.grad(loss, list(module.parameters()))]
            )
            assert (g + (point.detach() - sent.x) / 0.5).norm() < 1e-9


def test_one_newton_step_solves_least_squares_and_counts_its_passes():
    g = torch.Generator().manual_seed(0)
    a = torch.randn(12, 3, generator=g, dtype=torch.float64)
    b = torch.randn(12, generator=g, dtype=torch.float64)
    squares = FunctionModel(
        lambda x, batch: (batch.inputs @ x - batch.targets) ** 2,
        torch.zeros(3, dtype=torch.float64),
    )
    algorithm = replace(zoo.fedavg(), local=Newton(terms=(Proximal(0.0),)))
    sim = Simulation(Task(algorithm, squares, Federation.of([(a, b)]), Plan(4, None, 1)), 1)
    *_, (server, row) = sim.run(sim.begin(1), Store(), 1)
    assert torch.allclose(
        server.x, torch.linalg.lstsq(a, b[:, None]).solution[:, 0], rtol=1e-10, atol=1e-12
    )
    # three batches; a gradient, a graph and one trial, then the gradient that finds the minimum; three products
    assert row.forwards == 3 * (1 + 1 + 1 + 1)
    assert row.backwards == 3 * (1 + 1 + 2 * 3 + 1)
    assert row.failed == 0


def test_conjugate_gradients_are_exact_after_d_products_and_stop_at_bad_curvature():
    g = torch.Generator().manual_seed(1)
    root = torch.randn(2, 5, 5, generator=g, dtype=torch.float64)
    h, right = root @ root.mT + torch.eye(5), torch.randn(2, 5, generator=g, dtype=torch.float64)
    z, used = conjugate_gradients(lambda v: (h @ v[..., None])[..., 0], right, 1e-12, 50)
    assert torch.allclose(z, torch.linalg.solve(h, right), rtol=1e-9)
    assert used.max() <= 7  # 5 in exact arithmetic
    down, used = conjugate_gradients(lambda v: -v, right, 1e-12, 50)
    assert torch.equal(down, right)
    assert used.tolist() == [1, 1]
    mixed = torch.stack(
        [h[0], -torch.eye(5, dtype=torch.float64)]
    )  # one client's trouble is not the other's
    both, _ = conjugate_gradients(lambda v: (mixed @ v[..., None])[..., 0], right, 1e-12, 50)
    assert torch.allclose(both[0], z[0], rtol=1e-12)
    assert torch.equal(both[1], right[1])


def test_fednew_with_one_client_and_no_rho_is_newtons_method_with_a_ridge():
    fed, net = federation(), model()
    alone = Federation(fed.fields, (fed.parts[3],))
    x, y = (f[fed.parts[3]] for f in fed.fields)

    def loss(w):
        return torch.nn.functional.cross_entropy(
            torch.func.functional_call(module, net_state(w), x), y
        )

    module = net.load(net.init())
    shapes = [(n, p.shape, p.numel()) for n, p in module.named_parameters()]

    def net_state(w):
        parts = w.split([size for *_, size in shapes])
        return {n: part.reshape(shape) for (n, shape, _), part in zip(shapes, parts, strict=True)}

    w = net.init()
    for _ in range(3):
        g, h = torch.func.grad(loss)(w), torch.autograd.functional.hessian(loss, w)
        w = w - torch.linalg.solve(h + 2.0 * torch.eye(len(w)), g)
    sim = Simulation(Task(zoo.fednew(2.0, 0.0), net, alone, Plan(4, None, 1)), 1)
    assert torch.allclose(final(sim, 3), w, rtol=1e-9, atol=1e-9)


# Servers


def test_hypergradient_of_orthogonal_deltas_is_averaging():
    first = step(Hypergradient(), [[1.0, 0.0]])
    second = step(Hypergradient(), [[0.0, 2.0]], first.state)
    assert second.x.tolist() == [0.0, 2.0]
    assert second.eta_g == 1
    third = step(Hypergradient(), [[0.0, 1.0]], second.state)
    assert third.eta_g == 3  # 1 + <(0, 2), (0, 1)>
    fourth = step(Hypergradient(), [[0.0, -100.0]], third.state)
    assert fourth.eta_g == pytest.approx(0.2)


@pytest.mark.parametrize("method", [zoo.fedhyper_g, zoo.fedhyper_gm])
def test_fedhyper_held_at_zero_is_fedavg(method):
    assert same(method(0.3, low=0.0, high=0.0), zoo.fedavg(0.3))
    assert not same(method(0.3), zoo.fedavg(0.3))


def test_fedhyper_gm_without_momentum_is_fedhyper_g():
    assert same(zoo.fedhyper_gm(0.3, low=-0.8, beta=0.0), zoo.fedhyper_g(0.3))


def test_fedhyper_sl_held_at_one_is_fedavg():
    assert same(zoo.fedhyper_sl(0.3, low=1.0, high=1.0), zoo.fedavg(0.3))
    assert not same(zoo.fedhyper_sl(0.3), zoo.fedavg(0.3))


def test_fedhyper_sl_sends_one_number_with_the_model():
    sim = simulation(zoo.fedhyper_sl())
    _, row = next(sim.run(sim.begin(1), Store(), 1))
    assert row.bytes_down == 4 * 8 * (model().dim + 1)


def test_nastya_with_equal_numbers_of_steps_is_fedavg_with_a_server_step():
    assert same(zoo.nastya(0.3, 0.6), zoo.fedavg(0.3, 0.6 / (5 * 0.3)))
    assert not same(
        zoo.nastya(0.3, 0.6), zoo.fedavg(0.3, 0.6 / (5 * 0.3)), plan=EPOCH
    )  # unequal numbers there


def test_nastya_with_line_search_clients_divides_by_the_way_they_went():
    searching = replace(zoo.nastya(server_step=0.5), local=zoo.fedsls().local)
    sim = simulation(searching)
    update = next(sim.executor(sim.task, sim.task.algorithm.broadcast(sim.begin(1)), [3], Store()))
    plain = simulation(zoo.fedsls())
    other = next(
        plain.executor(plain.task, plain.task.algorithm.broadcast(plain.begin(1)), [3], Store())
    )
    assert torch.allclose(
        update.aggregate.delta * other.trace.length.sum(), other.aggregate.delta, rtol=1e-12
    )


def test_first_round_of_feddog_is_fedavg():
    assert same(zoo.feddog_server(0.3), zoo.fedavg(0.3), rounds=1)
    assert not same(zoo.feddog_server(0.3), zoo.fedavg(0.3), rounds=2)


def test_fedams_with_a_high_floor_is_fedavg():
    assert same(zoo.fedams(0.3, server_step=100.0, beta=0.0, eps=1e4), zoo.fedavg(0.3))


def test_fedams_without_a_falling_second_moment_is_fedadam():
    growing = [[1.0, -2.0], [1.5, -2.5], [2.0, -3.0]]
    ams, adam = (
        Peak(0.1, 0.9, 0.5, eps=1e-3, floor=False, start=1e-6),
        Adaptive(Average(0.5), 0.1, 0.9, 1e-3),
    )
    a, b = None, None
    for delta in growing:
        one, two = step(ams, [delta], a), step(adam, [delta], b)
        a, b = one.state, two.state
        assert torch.equal(one.x, two.x)
    one, two = step(ams, [[0.0, 0.0]], a), step(adam, [[0.0, 0.0]], b)
    assert (one.x.abs() < two.x.abs()).all()  # Adam has forgotten part of v, AMSGrad nothing


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_no_delta_is_no_move_and_nothing_that_is_not_finite(rule):
    still = step(rule, [[0.0, 0.0]] * 2)
    assert still.x.tolist() == [0.0, 0.0]
    assert all(torch.isfinite(v).all() for v in still.state.values())
    moved = step(rule, [[1.0, 2.0]] * 2, still.state, envelope=1.0)
    assert torch.isfinite(moved.x).all()
    assert torch.isfinite(moved.eta_g)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_cancelling_deltas_are_no_move(rule):
    still = step(rule, [[1.0, -1.0], [-1.0, 1.0]], envelope=1.0)
    assert still.x.tolist() == [0.0, 0.0]
    assert torch.isfinite(still.eta_g)


@pytest.mark.parametrize("rule", [Diversity(1.5), EnvelopePolyak(max_step=1.5)])
def test_a_cap_holds(rule):
    assert step(rule, [[1.0, 0.0], [-0.9, 0.0]], envelope=9.0).eta_g == 1.5


def test_polynomial_readout_of_a_known_sequence():
    mean = torch.tensor(0.0)
    for t, value in enumerate((1.0, 2.0, 4.0)):
        mean = Polynomial(0.0)(mean, mean, torch.tensor(value), t, 3)
    assert float(mean) == pytest.approx(7 / 3)
    assert float(Polynomial(8.0)(torch.tensor(5.0), mean, torch.tensor(2.0), 0, 3)) == 2.0


# Codecs


@pytest.mark.parametrize("name", ["fedavg", "fedexpsls", "fedadam", "nastya"])
def test_sending_all_coordinates_is_sending_plainly(name):
    for codec in (TopK(1.0), ErrorFeedback(TopK(1.0))):
        assert same(replace(build(name), codec=codec), build(name))
        assert not same(replace(build(name), codec=TopK(0.2)), build(name))


def test_fedcams_that_sends_all_is_fedams():
    assert same(zoo.fedcams(0.3, compressor=TopK(1.0)), zoo.fedams(0.3))


@pytest.mark.parametrize("codec", [TopK(0.3), ScaledSign()], ids=str)
def test_what_was_sent_and_the_error_are_the_sum_of_the_deltas(codec):
    feedback = ErrorFeedback(codec)
    g = torch.Generator().manual_seed(2)
    deltas = torch.randn(8, 2, 10, generator=g, dtype=torch.float64)  # rounds, clients, coordinates
    memory = {k: v.expand(2, -1) for k, v in feedback.memory_init(deltas[0, 0]).items()}
    sent = torch.zeros(2, 10, dtype=torch.float64)
    for delta in deltas:
        one, memory = feedback(delta, memory)
        sent = sent + one
    assert torch.allclose(sent + memory["error"], deltas.sum(0), rtol=1e-12, atol=1e-12)
    assert not torch.allclose(sent, deltas.sum(0))


def test_the_error_of_an_absent_client_waits():
    sim = simulation(replace(zoo.fedavg(), codec=ErrorFeedback(TopK(0.1))), per_round=2)
    store, kept = Store(), {}
    for server, _ in sim.run(sim.begin(4), store, 4):
        cohort = sim.sampling(len(SIZES), 2, sim.task.seed, server.round - 1)
        for client, memory in kept.items():
            assert torch.equal(memory, store.memories[client]["codec.error"]) == (
                client not in cohort
            )
        kept = {c: m["codec.error"].clone() for c, m in store.memories.items()}
    assert len(kept) < len(SIZES)  # some never took part, and have none


def test_scaled_sign_leaves_out_as_much_as_it_says():
    x = torch.tensor([[3.0, -1.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    sent, _ = ScaledSign()(x, {})
    assert sent.tolist() == [[1.5, -1.5, 1.5, 1.5], [0.0] * 4]
    assert float(((sent - x) ** 2).sum()) == 14 - 36 / 4  # |x|^2 - |x|_1^2 / d


def test_top_k_keeps_the_largest_per_client():
    x = torch.tensor([[3.0, -4.0, 0.5, 2.0], [0.0, 1.0, -2.0, 0.5]])
    assert TopK(0.5)(x, {})[0].tolist() == [[3.0, -4.0, 0.0, 0.0], [0.0, 1.0, -2.0, 0.0]]
    assert (TopK(0.001)(x, {})[0] != 0).sum(-1).tolist() == [1, 1]


def test_bytes_are_those_on_the_wire():
    x = torch.zeros(1000)
    assert Plain().size(x) == TopK(1.0).size(x) == 4000
    assert TopK(0.01).size(x) == 10 * 4 + 10 * 4
    assert TopK(0.5).size(x) == 500 * 4 + 125  # a bit a coordinate is less than 500 numbers
    assert ScaledSign().size(x) == ErrorFeedback(ScaledSign()).size(x) == 125 + 4
    sim = simulation(zoo.fedcams())
    _, row = next(sim.run(sim.begin(1), Store(), 1))
    assert row.bytes_up == 4 * (ceil(model().dim / 8) + 8)
    assert row.bytes_down == 4 * 8 * model().dim


def test_every_method_takes_a_codec_in_text():
    for name in zoo.__all__:
        assert build(f"{name}(codec=TopK(fraction=0.1))").codec == TopK(0.1)
    nested = build("fedexpsls(codec=ErrorFeedback(codec=TopK(fraction=0.1)))")
    assert nested == replace(zoo.fedexpsls(), codec=ErrorFeedback(TopK(0.1)))
    assert build("fedcams(compressor=TopK(fraction=0.1))") == zoo.fedcams(compressor=TopK(0.1))


def test_a_broken_delta_leaves_no_error_behind():
    x = federation().fields[0].clone()
    x[federation().parts[3]] = torch.nan
    sim = simulation(zoo.fedcams(), per_round=6)
    fed = Federation((x, federation().fields[1]), federation().parts)
    store, broken = Store(), replace(sim, task=replace(sim.task, federation=fed))
    list(broken.run(broken.begin(2), store, 2))
    assert torch.equal(
        store.memories[3]["codec.error"], torch.zeros(model().dim, dtype=torch.float64)
    )


# What cannot be used


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TopK(0.0), r"TopK\(fraction=0.0\)"),
        (lambda: TopK(1.5), r"TopK\(fraction=1.5\)"),
        (lambda: Diversity(0.5), r"Diversity\(max_step=0.5\)"),
        (lambda: EnvelopePolyak(gamma=0.0), r"EnvelopePolyak\(gamma=0.0\)"),
        (lambda: Hypergradient(low=0.5), r"Hypergradient\(low=0.5"),
        (lambda: Hypergradient(beta=1.0), r"Hypergradient\(beta=1.0\)"),
        (lambda: DistanceOverSum(start=0.0), r"DistanceOverSum\(start=0.0\)"),
        (lambda: DistanceOverSum(eps=-1.0), r"DistanceOverSum\(eps=-1.0\)"),
        (lambda: Peak(beta=1.0), r"Peak\(beta=1.0"),
        (lambda: Peak(eps=-1.0), r"Peak\(eps=-1.0"),
        (lambda: FlowerAdam(beta2=1.0), r"FlowerAdam\(beta=0.9, beta2=1.0\)"),
        (lambda: Adaptive(Average(), start=-1.0), r"Adaptive\(start=-1.0\)"),
        (lambda: Polynomial(-1.0), r"Polynomial\(power=-1.0\)"),
        (lambda: Tuned(low=2.0), r"Tuned\(low=2.0"),
        (lambda: Newton(steps=0), r"Newton\(steps=0"),
        (lambda: Newton(tolerance=0.0), r"Newton\(tolerance=0.0\)"),
        (lambda: zoo.fedexprox(gamma=0.0), r"fedexprox\(gamma=0.0\)"),
        (lambda: zoo.fednew(rho=-1.0), r"Consensus\(rho=-1.0\)"),
    ],
)
def test_bad_settings_are_refused_with_their_value(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_polyaks_step_without_envelopes_says_what_is_missing():
    with pytest.raises(InputError, match="Envelope"):
        final(simulation(replace(zoo.fedexprox_stops(), correction=zoo.fedavg().correction)), 1)
    assert zoo.fedexprox_stops().correction == Envelope()
    assert zoo.fednew().local.step == Constant(1.0)


def test_newton_on_a_linear_model_keeps_to_plain_coordinates():
    g = torch.Generator().manual_seed(4)
    fed = Federation.of(
        [
            (torch.randn(n, 20, generator=g).double(), torch.randint(3, (n,), generator=g))
            for n in (3, 5)
        ]
    )
    layer = ModuleModel(torch.nn.Linear(20, 3, dtype=torch.float64))
    assert dual_form_fits(Task(zoo.fedsls(), layer, fed, Plan(2, 9)))
    assert not dual_form_fits(Task(replace(zoo.fedsls(), local=Newton()), layer, fed, Plan(2, 9)))


def test_distance_over_sum_does_not_know_the_scale_of_the_deltas():
    deltas = [[0.3, -1.0], [0.5, 0.2], [-0.1, 0.4]]
    ends = []
    for factor in (1.0, 1000.0):
        rule, x = DistanceOverSum(0.1), torch.tensor([1.0, 2.0], dtype=torch.float64)
        state = rule.init(x)
        for delta in deltas:
            d = factor * torch.tensor(delta, dtype=torch.float64)
            taken = rule.update(x, d, total([delta]), state)
            x, state = taken.x, taken.state
        ends.append(x)
    assert torch.allclose(*ends, rtol=1e-12)


def test_consensus_takes_any_local_solver():
    mixture = replace(zoo.fednew(), local=zoo.fedsls().local)
    sim = simulation(mixture, per_round=6)
    rows = [row for _, row in sim.run(sim.begin(6), Store(), 6)]
    # the least, and few rounds: it swings, and from the tenth on no two processors swing alike
    assert min(row.loss for row in rows) < 0.6 * rows[0].loss
