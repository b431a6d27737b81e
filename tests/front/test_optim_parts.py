"""Directions, moves, weight decay and all kinds of closures in the torch optimiser."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
import torch
from torch import nn

from fedstep import InputError
from fedstep.local.directions import Momentum, Steepest
from fedstep.local.moves import Extragradient, Inertia
from fedstep.local.preconditioned import Adam, Preconditioned
from fedstep.optim import Armijo, Searching, lean_search
from fedstep.steps.cadence import Steeper
from fedstep.steps.conditions import StrongWolfe
from fedstep.steps.fixed import Constant, Schedule
from fedstep.steps.search import LineSearch


def task():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
        x = torch.randn(40, 3).double()
    y = (x[:, 0] > x[:, 1]).long()
    return model, lambda: nn.functional.cross_entropy(model(x), y)


def vector(model):
    return torch.cat([p.detach().reshape(-1).clone() for p in model.parameters()])


def run(make, steps=10):
    """Where an optimiser ends, and its steps."""
    model, loss = task()
    optimizer = make(model)
    sizes = []
    for _ in range(steps):
        optimizer.step(loss)
        sizes.append(optimizer.param_groups[0]["lr"])
    return vector(model), sizes


def run_torch(make, steps=10):
    model, loss = task()
    optimizer = make(model)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    return vector(model)


def test_a_constant_step_is_torch_sgd():
    ours, _ = run(lambda m: Searching(m.parameters(), Constant(0.3)))
    theirs = run_torch(lambda m: torch.optim.SGD(m.parameters(), 0.3))
    assert torch.allclose(ours, theirs, rtol=1e-12)


def test_a_momentum_direction_with_a_constant_step_is_torch_sgd_with_momentum():
    ours, _ = run(lambda m: Searching(m.parameters(), Constant(0.1), Momentum(0.9)))
    theirs = run_torch(lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9))
    assert torch.allclose(ours, theirs, rtol=1e-12)


def test_inertia_with_a_constant_step_is_the_same_momentum():
    moved, _ = run(lambda m: Searching(m.parameters(), Constant(0.1), move=Inertia(0.9)))
    directed, _ = run(lambda m: Searching(m.parameters(), Constant(0.1), Momentum(0.9)))
    assert torch.allclose(moved, directed, rtol=1e-10)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_an_adam_direction_with_a_constant_step_is_torch_adamw(decay):
    direction = Preconditioned(Adam(beta=0.99, momentum=0.9))
    ours, _ = run(
        lambda m: Searching(m.parameters(), Constant(0.01), direction, weight_decay=decay)
    )
    theirs = run_torch(
        lambda m: torch.optim.AdamW(m.parameters(), 0.01, betas=(0.9, 0.99), weight_decay=decay)
    )
    assert torch.allclose(ours, theirs, rtol=1e-9)


def test_an_extragradient_move_uses_the_gradient_at_the_end_of_the_step():
    model, loss = task()
    params = list(model.parameters())
    x = vector(model)

    def gradient(at):
        with torch.no_grad():
            nn.utils.vector_to_parameters(at, params)
        return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss(), params)])

    expected = x - 0.5 * gradient(x - 0.5 * gradient(x))
    gradient(x)  # back to where it was
    Searching(params, Constant(0.5), move=Extragradient()).step(loss)
    assert torch.allclose(vector(model), expected, rtol=1e-12)


def test_a_search_along_a_scaled_direction_decreases_the_loss():
    model, loss = task()
    rule = LineSearch(max_step=1.0)
    direction = Preconditioned(Adam(momentum=0.0))
    optimizer = Searching(model.parameters(), rule, direction)
    for _ in range(10):
        before = float(optimizer.step(loss))
        assert float(loss().detach()) < before


def test_weight_decay_is_that_of_each_group_and_follows_the_step():
    model, loss = task()
    params = list(model.parameters())
    before = [p.detach().clone() for p in params]
    grads = torch.autograd.grad(loss(), params)
    groups = [
        {"params": params[:2]},
        {"params": params[2:], "weight_decay": 0.01},
    ]
    optimizer = Armijo(groups)
    optimizer.step(loss)
    eta = optimizer.param_groups[0]["lr"]
    for p, old, g, decay in zip(params, before, grads, (0, 0, 0.01, 0.01), strict=True):
        assert torch.allclose(p, old - eta * g - eta * decay * old, rtol=1e-12)


def test_weight_decay_never_turns_a_parameter_round():
    weight = nn.Parameter(torch.ones(2))
    Searching([weight], Constant(10.0), weight_decay=5.0).step(lambda: 0 * weight.sum())
    assert torch.equal(weight, torch.zeros(2))
    with pytest.raises(InputError, match=r"weight_decay=-1"):
        Searching([weight], Constant(1.0), weight_decay=-1)


def test_the_first_trial_grows_by_a_factor_of_two_an_epoch():
    def growth(**settings):
        weight = nn.Parameter(torch.zeros(1).double())
        rule = LineSearch(start=1.0, max_step=1e6)
        optimizer = Searching([weight], rule, **settings)
        sizes = []
        for _ in range(3):
            optimizer.step(lambda: weight.sum())  # a line: every step is good
            sizes.append(optimizer.param_groups[0]["lr"])
        return sizes[2] / sizes[1]

    assert growth() == pytest.approx(2 ** (1 / 500), rel=1e-12)
    assert growth(steps_per_epoch=20) == pytest.approx(2 ** (1 / 20), rel=1e-12)
    with pytest.raises(InputError, match="steps_per_epoch=0"):
        growth(steps_per_epoch=0)


def test_a_schedule_counts_epochs():
    rule = Schedule(step=1.0, decay=0.5)
    _, sizes = run(lambda m: Searching(m.parameters(), rule, steps_per_epoch=2), steps=5)
    assert sizes == [1.0, 1.0, 0.5, 0.5, 0.25]


@pytest.mark.parametrize("rule", [LineSearch(), LineSearch(StrongWolfe(0.1, 0.5)), lean_search()])
@pytest.mark.parametrize("returned", ["loss", "detached", "float"])
def test_a_closure_that_calls_backward_takes_the_same_steps(rule, returned):
    def inside(model, loss):
        def closure():
            model.zero_grad()
            value = loss()
            value.backward()
            return {"loss": value, "detached": value.detach(), "float": value.item()}[returned]

        return closure

    model, loss = task()
    twin, twin_loss = task()
    one = Searching(model.parameters(), rule)
    two = Searching(twin.parameters(), rule)
    for _ in range(6):
        g = torch.autograd.grad(loss(), list(model.parameters()))
        one.step(loss)
        two.step(inside(twin, twin_loss))
        assert one.trials == two.trials
        # the gradient at the point before the step is left for whoever logs it
        for p, expected in zip(twin.parameters(), g, strict=True):
            assert torch.allclose(p.grad, expected, rtol=1e-12)
    assert torch.allclose(vector(model), vector(twin), rtol=1e-12)


def test_a_closure_that_never_zeroes_its_gradients_is_read_rightly():
    model, loss = task()

    def closure():
        value = loss()
        value.backward()
        return value

    rule = LineSearch(max_step=1.0)
    optimizer = Searching(model.parameters(), rule)
    expected, _ = run(lambda m: Searching(m.parameters(), rule), steps=4)
    for _ in range(4):
        optimizer.step(closure)
    assert torch.allclose(vector(model), expected, rtol=1e-12)


def test_a_grad_scaler_is_refused_with_the_recipe():
    model, loss = task()
    optimizer = Armijo(model.parameters())
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(loss()).backward()
    with pytest.raises(InputError, match="bfloat16, which needs no scaler"):
        scaler.step(optimizer)
    disabled = torch.amp.GradScaler("cpu", enabled=False)
    assert float(disabled.step(optimizer, closure=loss)) > 0


def test_bfloat16_works_without_a_scaler():
    model, _ = task()
    model.float()
    x = torch.randn(40, 3)
    y = (x[:, 0] > x[:, 1]).long()

    def loss():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return nn.functional.cross_entropy(model(x).float(), y)

    optimizer = Searching(model.parameters(), lean_search())
    losses = [float(optimizer.step(loss)) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]


def test_a_cadence_leaves_most_trials_out_and_arrives_as_well():
    model, loss = task()
    optimizer = Searching(model.parameters(), replace(lean_search(), cadence=Steeper()))
    losses = []
    trials = 0
    for _ in range(32):
        losses.append(float(optimizer.step(loss)))
        trials += optimizer.trials
    assert losses[-1] < 0.5 * losses[0]
    assert 4 <= trials < 16


@pytest.mark.parametrize(
    "parts",
    [
        {"direction": Momentum(0.5)},
        {"direction": Preconditioned(Adam())},
        {"move": Inertia(0.5), "weight_decay": 0.01},
    ],
)
def test_every_part_goes_on_to_the_same_bits_after_a_file(parts):
    def make():
        model, loss = task()
        return model, loss, Searching(model.parameters(), LineSearch(max_step=1.0), **parts)

    model, loss, optimizer = make()
    for _ in range(4):
        optimizer.step(loss)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    twin, twin_loss, again = make()
    saved = torch.load(file, weights_only=True)
    twin.load_state_dict(saved["model"])
    again.load_state_dict(saved["optimizer"])
    for _ in range(3):
        optimizer.step(loss)
        again.step(twin_loss)
    assert torch.equal(vector(model), vector(twin))


def test_a_closure_that_breaks_leaves_the_parameters_where_they_were():
    model, loss = task()
    before = vector(model)
    calls = []

    def closure():
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("broken")
        return loss()

    with pytest.raises(RuntimeError, match="broken"):
        Armijo(model.parameters()).step(closure)
    assert torch.equal(vector(model), before)
    assert all(p.grad is None for p in model.parameters())


def test_what_is_no_part_is_refused():
    weight = [nn.Parameter(torch.ones(1))]
    with pytest.raises(
        InputError, match=r"direction=Steepest\): Steepest is a class; write Steepe"
    ):
        Searching(weight, LineSearch(), Steepest)
    with pytest.raises(InputError, match=r"move=3\): give a part such as Extragradient\(\)"):
        Searching(weight, LineSearch(), move=3)
