"""Every method names its special case."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from problems import federation, final, model, simulation

from fedstep import authors, zoo
from fedstep.data.federation import Federation
from fedstep.data.plan import Plan
from fedstep.execute import Task
from fedstep.local.directions import Chain, Clip, Decay, Momentum
from fedstep.local.terms import L2
from fedstep.optim import Armijo
from fedstep.run.simulate import Simulation
from fedstep.server.readouts import Exponential, Last, LastTwo, Tail
from fedstep.steps.fixed import Constant, Schedule
from fedstep.steps.resets import Grow, Keep, Restart


def same(a, b, rounds=3):
    return torch.allclose(
        final(simulation(a), rounds), final(simulation(b), rounds), rtol=1e-12, atol=1e-12
    )


def test_fedprox_with_mu_zero_is_fedavg():
    assert same(zoo.fedprox(0.3, mu=0.0), zoo.fedavg(0.3))
    assert not same(zoo.fedprox(0.3, mu=0.5), zoo.fedavg(0.3))


def test_fedavgm_with_beta_zero_is_fedavg():
    assert same(zoo.fedavgm(0.3, beta=0.0), zoo.fedavg(0.3))
    assert not same(zoo.fedavgm(0.3, beta=0.9), zoo.fedavg(0.3))


def test_fedprox_exp_with_mu_zero_is_fedexp():
    assert same(zoo.fedprox_exp(0.3, mu=0.0), zoo.fedexp(0.3))


def test_fedexp_with_a_huge_eps_is_fedavg():
    assert same(zoo.fedexp(0.3, eps=1e9), zoo.fedavg(0.3))
    assert not same(zoo.fedexp(0.3, eps=0.0), zoo.fedavg(0.3))


def test_fedexpsls_with_a_huge_eps_is_fedsls():
    assert same(zoo.fedexpsls(eps=1e9), zoo.fedsls())
    assert not same(zoo.fedexpsls(eps=0.0), zoo.fedsls())


@pytest.mark.parametrize("method", [zoo.fedadam, zoo.fedyogi])
def test_adaptive_servers_with_a_large_tau_are_fedavg(method):
    tau = 1e4  # v stays at tau^2, so m / (sqrt(v) + tau) = d / (2 tau)
    assert same(method(0.3, server_step=2 * tau, beta=0.0, beta2=1.0, tau=tau), zoo.fedavg(0.3))


def test_first_round_of_fedadagrad_moves_every_coordinate_by_the_server_step():
    sim = simulation(zoo.fedadagrad(0.3, server_step=0.1, tau=0.0))
    move = (final(sim, 1) - sim.begin(1).x).abs()
    assert torch.allclose(move, torch.full_like(move, 0.1))


def test_fedsls_with_an_always_acceptable_cap_is_fedavg():
    tiny = 1e-3  # far below 2 (1 - c) / L of this task
    assert same(zoo.fedsls(c=1e-6, max_step=tiny, reset=Grow(1e6)), zoo.fedavg(tiny))


def test_one_client_and_server_step_one_is_the_line_search_optimizer():
    fed, net = federation(), model()
    alone = Federation(fed.fields, (fed.parts[3],))
    sim = Simulation(Task(zoo.fedsls(), net, alone, Plan(batch=20, steps=6)), 1)
    module = net.load(net.init())
    x, y = (f[fed.parts[3]] for f in fed.fields)
    optimizer = Armijo(module.parameters(), reset=Grow(2.0, per=1))
    for _ in range(6):
        optimizer.step(lambda: torch.nn.functional.cross_entropy(module(x), y))
    flat = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    assert torch.allclose(final(sim, 1), flat, rtol=1e-11, atol=1e-11)


def test_schedule_without_decay_is_constant():
    alg = zoo.fedavg(0.3)
    assert same(replace(alg, local=replace(alg.local, step=Schedule(0.3))), alg)


def test_schedule_decays_by_the_round_and_warms_up():
    s = Schedule(1.0, decay=0.5, warmup=4)
    assert [s.at(t) for t in range(5)] == [0.25, 0.25, 0.1875, 0.125, 0.0625]
    assert Schedule(1.0, decay=0.5, floor=0.3).at(10) == 0.3


def test_l2_term_and_decay_direction_agree_for_fixed_steps():
    alg = zoo.fedavg(0.3)
    term = replace(alg, local=replace(alg.local, terms=(L2(0.1),)))
    direction = replace(alg, local=replace(alg.local, direction=Chain((Decay(0.1),))))
    assert same(term, direction)
    assert not same(term, alg)


def test_a_wide_clip_changes_nothing_and_a_narrow_one_bounds_the_move():
    alg = zoo.fedavg(1.0)
    assert same(replace(alg, local=replace(alg.local, direction=Clip(1e9))), alg)
    sim = simulation(replace(alg, local=replace(alg.local, direction=Clip(0.01))))
    assert (final(sim, 1) - sim.begin(1).x).norm() <= 5 * 0.01


def test_momentum_with_beta_zero_is_steepest():
    alg = zoo.fedavg(0.3)
    assert same(replace(alg, local=replace(alg.local, direction=Momentum(0.0))), alg)
    assert not same(replace(alg, local=replace(alg.local, direction=Momentum(0.5))), alg)


def test_momentum_on_a_quadratic_follows_its_recursion():
    v, x = 0.0, 1.0  # f = x^2 / 2 by hand
    for _ in range(4):
        v = 0.5 * v - x
        x += 0.1 * v
    state, point = (
        Momentum(0.5).init(torch.zeros(1, dtype=torch.float64)),
        torch.ones(1, dtype=torch.float64),
    )
    for _ in range(4):
        d, state = Momentum(0.5).apply(-point, point, state)
        point = point + 0.1 * d
    assert float(point) == pytest.approx(x, rel=1e-14)


def test_readouts_of_a_known_sequence():
    xs = [torch.tensor(float(v)) for v in (0, 1, 3, 7, 15, 31, 63, 127, 255)]

    def read(readout):
        mean = xs[0]
        for t in range(8):
            mean = readout(mean, xs[t], xs[t + 1], t, 8)
        return float(mean)

    assert read(Last()) == 255
    assert read(LastTwo()) == (127 + 255) / 2
    assert read(Tail(0.25)) == (127 + 255) / 2
    assert read(Tail(0.5)) == (31 + 63 + 127 + 255) / 4
    assert read(Tail(1.0)) == sum(2**k - 1 for k in range(1, 9)) / 8
    assert read(Exponential(0.0)) == 255
    assert read(Exponential(0.5)) == pytest.approx(
        255 / 2 + 127 / 4 + 63 / 8 + 31 / 16 + 15 / 32 + 7 / 64 + 3 / 128 + 1 / 128
    )


def test_readout_does_not_change_the_training():
    plain = zoo.fedexpsls()
    assert torch.equal(final(simulation(plain)), final(simulation(replace(plain, readout=Tail()))))


def test_mixtures_are_one_replace_away():
    mixture = replace(
        zoo.fedadam(), local=replace(zoo.fedsls().local, terms=zoo.fedprox(mu=0.1).local.terms)
    )
    assert torch.isfinite(final(simulation(mixture))).all()
    assert not same(mixture, zoo.fedadam())


def test_program_and_paper_agree_where_they_should():
    program = authors.fedsls(reset=Keep(), start=0.5)
    paper = zoo.fedsls(reset=Keep(), max_step=0.5)
    assert same(replace(program, weighting=paper.weighting), paper)
    assert not same(program, paper)  # weighted by samples


def test_resets_differ():
    # from a first step that is refused
    methods = [zoo.fedsls(max_step=10.0, reset=r) for r in (Keep(), Restart(), Grow(2.0))]
    ends = [final(simulation(method)) for method in methods]
    assert not torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[1], ends[2])


def test_constant_step_zero_goes_nowhere():
    alg = zoo.fedavg()
    sim = simulation(replace(alg, local=replace(alg.local, step=Constant(0.0))))
    assert torch.equal(final(sim), sim.begin(3).x)
