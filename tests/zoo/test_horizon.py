"""Steps from the length of the run, orthogonal steps, and starts and looks that know the last round."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from problems import after_one_round, federation, final, model, simulation

from fedstep import InputError, build, zoo
from fedstep.core.aggregate import Aggregate
from fedstep.corrections.control_variates import MeanControl
from fedstep.corrections.momentum_control import ControlledMomentum, OwnMomentum, ReducedMomentum
from fedstep.corrections.relaxed_start import RelaxedStart
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Store
from fedstep.local.directions import Chain, Clip, Unit
from fedstep.local.last_round import Alongside, Behind
from fedstep.local.orthogonal import MatrixPlace, Orthogonal, matrices_in, orthogonalised
from fedstep.models.module import ModuleModel
from fedstep.server.rules import Length


def same(a, b, close=1e-12):
    ends = [final(simulation(method), 3) for method in (a, b)]
    return torch.allclose(*ends, rtol=close, atol=close)


def loss_at(x):
    """The mean loss over all samples; differentiable."""
    net = model()
    inputs, targets = federation().fields
    logits = torch.func.functional_call(net.module, net.parameters(x), (inputs,))
    return torch.nn.functional.cross_entropy(logits, targets)


# What they reduce to


@pytest.mark.parametrize(
    ("method", "special_case"),
    [
        (zoo.fedinit(0.1, beta=0.0), zoo.fedavg(0.1)),
        (zoo.fedlesam(0.1, rho=0.0), zoo.fedavg(0.1)),
        (
            zoo.fedmuon(0.1, align=0.0, beta=0.0),
            zoo.local_muon(0.1, beta=0.0),
        ),
    ],
    ids=["fedinit", "fedlesam", "fedmuon"],
)
def test_special_cases_hold(method, special_case):
    assert same(method, special_case)


def test_without_memory_padamfed_is_scaffold_with_normalised_steps():
    # the mean of unit vectors is not the unit vector of the mean: controls differ from `MeanControl`
    # in a whole round, and agree where a client takes one step
    one_step = Plan(batch=4, steps=1)
    eta = 0.01
    scaffold = replace(zoo.scaffold(eta), local=replace(zoo.scaffold(eta).local, direction=Unit()))
    exact = replace(scaffold, correction=ControlledMomentum(beta=1.0))
    reduced = replace(scaffold, correction=ReducedMomentum(beta=1.0))
    first, second = (final(simulation(each, plan=one_step), 4) for each in (exact, reduced))
    assert torch.allclose(first, second, rtol=1e-12, atol=1e-12)


def test_controls_are_means_of_gradients_where_scaffold_recovers_them_from_the_delta():
    # plain steps: delta / length is minus the mean gradient of what the client descends
    eta = 0.05
    plain = zoo.scaffold(eta)
    counted = replace(plain, correction=ControlledMomentum(beta=1.0))
    # its server goes by delta / length: a step of eta K makes the same way of it
    counted = replace(counted, server=replace(counted.server, step=eta * 5))
    assert isinstance(plain.correction, MeanControl)
    ends = [final(simulation(each), 5) for each in (plain, counted)]
    assert torch.allclose(*ends, rtol=1e-10, atol=1e-10)


def test_one_client_and_one_step_of_parfrefl_is_normalised_momentum():
    beta, gamma = 0.3, 0.05
    method = replace(zoo.parfrefl(), correction=OwnMomentum(beta), server=Length(gamma))
    sim = simulation(method, plan=Plan(batch=100, steps=1), per_round=6)
    whole = sim.task.federation
    sim = replace(
        sim, task=replace(sim.task, federation=type(whole).of([whole.fields])), per_round=1
    )
    x, m = model().init(), None
    for server, _ in sim.run(sim.begin(4), Store(), 4):
        leaf = x.clone().requires_grad_()
        (g,) = torch.autograd.grad(loss_at(leaf), leaf)
        m = g if m is None else beta * g + (1 - beta) * m
        x = x - gamma * m / m.norm()
        assert torch.allclose(server.x, x, rtol=1e-10, atol=1e-10)


# Their settings matter


@pytest.mark.parametrize(
    ("method", "other"),
    [
        (zoo.fedinit(0.1, beta=0.3), zoo.fedavg(0.1)),
        (zoo.fedlesam(0.1, rho=0.3), zoo.fedavg(0.1)),
        (zoo.fedmuon(0.1, align=0.5), zoo.fedmuon(0.1, align=0.1)),
        (zoo.padamfed(rounds=400), zoo.padamfed(rounds=800)),
        (zoo.padamfed_vr(rounds=900), zoo.padamfed(rounds=900)),
        (zoo.parfrefl(rounds=400), zoo.parfrefl(rounds=800)),
    ],
    ids=["fedinit", "fedlesam", "fedmuon", "padamfed", "padamfed_vr", "parfrefl"],
)
def test_their_settings_matter(method, other):
    assert not same(method, other)


# Orthogonal steps


@pytest.mark.parametrize("shape", [(3, 8), (8, 3), (5, 5), (2, 4, 6), (1, 7)])
def test_singular_values_come_near_one(shape):
    g = torch.Generator().manual_seed(1)
    turned = orthogonalised(torch.randn(shape, generator=g, dtype=torch.float64))
    values = torch.linalg.svdvals(turned)
    assert turned.shape == shape
    assert float(values.min()) > 0.6
    assert float(values.max()) < 1.3


def test_a_matrix_of_zeros_stays_one():
    assert torch.equal(orthogonalised(torch.zeros(3, 4)), torch.zeros(3, 4))


def test_matrices_are_found_where_they_lie():
    places = matrices_in(((4, 3), (4,), (), (2, 3, 2, 2), (0, 5)))
    assert places == [MatrixPlace(0, (4, 3)), MatrixPlace(17, (2, 3, 2, 2))]
    assert (places[1].rows, places[1].columns, places[1].end) == (2, 12, 41)


def test_a_tall_matrix_goes_further_and_a_filter_does_not():
    assert MatrixPlace(0, (8, 2)).factor == 2.0
    assert MatrixPlace(0, (2, 8)).factor == 1.0
    assert MatrixPlace(0, (64, 3, 3, 3)).factor == 1.0


def test_the_step_does_not_depend_on_the_size_of_gradients_and_has_the_rate_s_length():
    muon = Orthogonal(beta=0.0, rate=0.5, decay=0.0, shapes=((6, 6), (2,)))
    g = torch.Generator().manual_seed(2)
    d = torch.randn(38, generator=g, dtype=torch.float64)
    x = torch.zeros(38, dtype=torch.float64)
    one, _ = muon.apply(d, x, muon.init(x))
    other, _ = muon.apply(1000 * d, x, muon.init(x))
    assert torch.allclose(one, other, rtol=0, atol=1e-6)
    # 36 numbers of an orthogonal matrix have the norm sqrt(6), up to what five iterations leave
    assert 0.5 * 6**0.5 * 0.6 < float(one[:36].norm()) < 0.5 * 6**0.5 * 1.3
    # Adam's first step is the sign
    assert torch.allclose(one[36:], d[36:].sign(), rtol=0, atol=1e-6)


def test_blocks_of_clients_are_turned_one_by_one():
    muon = Orthogonal(shapes=((3, 4), (3,)))
    g = torch.Generator().manual_seed(3)
    d = torch.randn(5, 15, generator=g, dtype=torch.float64)
    x = torch.randn(5, 15, generator=g, dtype=torch.float64)
    together, _ = muon.apply(d, x, muon.init(x))
    for row in range(5):
        alone, _ = muon.apply(d[row], x[row], muon.init(x[row]))
        assert torch.allclose(together[row], alone, rtol=0, atol=1e-12)


def test_shapes_are_the_model_s_and_must_be_known():
    task = simulation(zoo.local_muon()).task
    chain = task.algorithm.local.direction
    assert isinstance(chain, Chain)
    assert chain.parts[1].shapes == ((6, 5), (6,), (3, 6), (3,)) == model().shapes
    with pytest.raises(InputError, match="call suited"):
        Orthogonal().places  # noqa: B018


def test_a_complex_parameter_is_a_vector():
    module = torch.nn.Linear(2, 2, dtype=torch.complex64)
    assert ModuleModel(module, loss=lambda a, b: a.abs().sum()).shapes == ((8,), (4,))


def test_only_the_matrices_momentum_travels():
    sim = simulation(zoo.fedmuon())
    shared = sim.begin(1).shared
    matrices = 5 * 6 + 6 * 3
    assert [v.numel() for k, v in shared.items() if k.endswith("momentum")] == [matrices]


# Parts in other company


MIXTURES = [
    "fedsls(correction=ControlledMomentum(beta=0.5), max_step=1.0, server=Step(step=0.3))",
    "fedsls(correction=ReducedMomentum(beta=0.5), max_step=1.0, server=Step(step=0.3))",
    "fedsls(correction=OwnMomentum(beta=0.5), max_step=1.0, server=Length(step=0.2))",
    "fedpace(correction=RelaxedStart(beta=0.2))",
    "fedpace(move=Behind(rho=0.05))",
    "fedavg(step=0.05, move=Alongside(weight=0.5), server=HeavyBall(step=0.5, beta=0.5))",
    "fedmuon(codec=TopK(fraction=0.5), guard=NormLimit())",
    "local_muon(correction=MeanControl())",
    "parfrefl(codec=ErrorFeedback(codec=TopK(fraction=0.25)), guard=NormLimit())",
    "padamfed(guard=NormLimit(), weighting=BySamples())",
    "fedavg(direction=Chain(parts=(Clip(norm=1.0), Unit())), step=0.01)",
]


@pytest.mark.parametrize("text", MIXTURES)
def test_mixtures_learn_and_do_not_depend_on_the_executor(text):
    method = build(text)
    sim = simulation(method)
    first = sim.begin(12)
    *_, (last, _) = sim.run(first, Store(), 12)
    assert loss_at(last.x) < loss_at(first.x)
    cohort = simulation(method, Cohort(block=3))
    server, _ = after_one_round(sim, first, Store())
    other, _ = after_one_round(cohort, first, Store())
    assert torch.allclose(server.x, other.x, rtol=0, atol=1e-9)


# Edges


def test_a_direction_of_length_zero_is_left_alone():
    zero = torch.zeros(2, 3)
    assert torch.equal(Unit().apply(zero, zero, {})[0], zero)
    d, _ = Unit().apply(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), zero, {})
    assert torch.allclose(d, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))


def test_a_server_of_fixed_length_stays_where_there_is_no_direction():
    rule = Length(0.5)
    x = torch.ones(2)
    nothing = Aggregate.of(torch.zeros(1, 2), {}, torch.ones(1))
    assert torch.equal(rule.update(x, torch.zeros(2), nothing, {}).x, x)
    step = rule.update(x, torch.tensor([3.0, 4.0]), nothing, {})
    assert float((step.x - x).norm()) == pytest.approx(0.5)
    assert float(step.eta_g) == pytest.approx(0.1)


def test_nobody_reports_fewer_steps_than_none():
    move = Alongside(0.5)
    said = {"steps": torch.tensor([-3.0, 4.0])}
    assert move.received(said, {})["steps"].tolist() == [0.0, 4.0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ControlledMomentum(beta=0.0), r"beta must lie in \(0, 1\]"),
        (lambda: ReducedMomentum(beta=1.5), r"beta must lie in \(0, 1\]"),
        (lambda: OwnMomentum(beta=-1.0), r"beta must lie in \(0, 1\]"),
        (lambda: RelaxedStart(beta=1.0), r"beta must lie in \[0, 1\)"),
        (lambda: Alongside(weight=1.0), "rounds grow for ever"),
        (lambda: Behind(rho=-0.1), "distance must be 0 or more"),
        (lambda: Orthogonal(beta=1.0), r"beta must lie in \[0, 1\)"),
        (lambda: Orthogonal(rate=0.0), "rate must be positive"),
        (lambda: Orthogonal(iterations=0), "give 1 or more"),
        (lambda: Length(step=0.0), "length must be positive"),
        (lambda: zoo.padamfed(rounds=0), "rounds=0: give the run's"),
        (lambda: zoo.parfrefl(cohort=0), "cohort=0: give the run's"),
        (lambda: zoo.padamfed_vr(local_steps=-1), "local_steps=-1: give the run's"),
        # not the share of it that its part is given
        (lambda: zoo.fedmuon(step=-1.0), r"fedmuon\(step=-1.0\)"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_a_clip_is_before_the_turn():
    clip, muon = zoo.local_muon(clip=3.0).local.direction.parts
    assert isinstance(clip, Clip)
    assert clip.norm == 3.0
    assert isinstance(muon, Orthogonal)


def test_the_extra_gradient_of_variance_reduction_is_counted():
    def passes(method):
        sim = simulation(method, per_round=6)
        ((_, row),) = sim.run(sim.begin(1), Store(), 1)
        return row.forwards, row.backwards

    plain, reduced = passes(zoo.padamfed()), passes(zoo.padamfed_vr())
    assert reduced == (2 * plain[0], 2 * plain[1])


def test_what_parfrefl_sends_is_one_vector_up_and_one_down():
    def bytes_of(method):
        sim = simulation(method, per_round=6)
        ((_, row),) = sim.run(sim.begin(1), Store(), 1)
        return row.bytes_up, row.bytes_down

    assert bytes_of(zoo.parfrefl()) == bytes_of(zoo.fedavg())
    up, down = bytes_of(zoo.fedavg())
    assert bytes_of(zoo.padamfed()) == (2 * up, 2 * down)
