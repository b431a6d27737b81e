"""The line search as a torch optimiser."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

from fedstep import InputError
from fedstep.optim import Armijo
from fedstep.steps.resets import Keep


def task():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    x, y = torch.randn(40, 3).double(), torch.randint(2, (40,))
    return model, lambda: nn.functional.cross_entropy(model(x), y)


def test_every_step_lowers_the_loss_enough():
    model, loss = task()
    optimizer = Armijo(model.parameters(), c=0.3)
    for _ in range(20):
        grads = torch.autograd.grad(loss(), list(model.parameters()))
        slope = sum(float((g * g).sum()) for g in grads)
        before = float(optimizer.step(loss))
        eta = optimizer.param_groups[0]["lr"]
        assert float(loss()) <= before - 0.3 * eta * slope + 1e-15


def test_state_survives_a_file_and_goes_on_to_the_same_bits():
    def make(c=0.1):
        model, loss = task()
        return model, loss, Armijo(model.parameters(), c)

    model, loss, optimizer = make()
    for _ in range(4):
        optimizer.step(loss)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    twin, twin_loss, again = make(c=0.9)
    saved = torch.load(file, weights_only=True)
    twin.load_state_dict(saved["model"])
    again.load_state_dict(saved["optimizer"])
    assert again.param_groups[0]["c"] == 0.1
    for _ in range(3):
        optimizer.step(loss)
        again.step(twin_loss)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True)
    )


def test_groups_scale_their_share_and_share_one_step():
    model, loss = task()
    head = model[2]
    before = [p.clone() for p in model.parameters()]
    grads = torch.autograd.grad(loss(), list(model.parameters()))
    optimizer = Armijo(
        [{"params": model[0].parameters()}, {"params": head.parameters(), "scale": 0.25}]
    )
    optimizer.step(loss)
    eta = optimizer.param_groups[0]["lr"]
    assert eta == optimizer.param_groups[1]["lr"] > 0
    for p, old, g, s in zip(model.parameters(), before, grads, (1, 1, 0.25, 0.25), strict=True):
        assert torch.allclose(p, old - eta * s * g, rtol=1e-12)


def test_groups_cannot_disagree_on_the_search():
    model, _ = task()
    with pytest.raises(InputError, match=r"c is 0.1 in one and 0.5 in another"):
        Armijo([{"params": model[0].parameters()}, {"params": model[2].parameters(), "c": 0.5}])


def test_dropout_masks_are_the_same_in_every_trial():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 50), nn.Dropout(0.5), nn.Linear(50, 1)).double()
    x = torch.randn(10, 3).double()
    seen = []

    def loss():
        out = model[1](torch.ones(50).double())
        seen.append(out.clone())
        return (model(x) ** 2).mean() + 0 * out.sum()

    optimizer = Armijo(model.parameters())
    optimizer.step(loss)
    assert len(seen) == optimizer.trials + 1 >= 3
    assert all(torch.equal(seen[0], s) for s in seen)
    first = seen[0]
    seen.clear()
    optimizer.step(loss)
    assert not torch.equal(seen[0], first)  # the next step draws anew


def test_buffers_given_are_left_as_the_first_pass_made_them():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
    x = torch.randn(10, 3).double()
    optimizer = Armijo(model.parameters(), buffers=model.buffers())
    optimizer.step(lambda: (model(x) ** 2).mean())
    assert optimizer.trials > 1
    assert int(model[1].num_batches_tracked) == 1


def test_gradients_of_the_user_are_left_alone():
    model, loss = task()
    loss().backward()
    kept = [p.grad.clone() for p in model.parameters()]
    Armijo(model.parameters()).step(loss)
    assert all(torch.equal(p.grad, k) for p, k in zip(model.parameters(), kept, strict=True))


def test_an_unused_parameter_does_not_move():
    model, loss = task()
    spare = nn.Parameter(torch.ones(2).double())
    Armijo([*model.parameters(), spare]).step(loss)
    assert torch.equal(spare, torch.ones(2).double())


def test_settings_can_be_changed_between_steps():
    model, loss = task()
    optimizer = Armijo(model.parameters(), reset=Keep())
    optimizer.param_groups[0]["max_step"] = 1e-3
    optimizer.step(loss)
    assert optimizer.param_groups[0]["lr"] == 1e-3


def test_misuse_is_told_in_one_line():
    model, loss = task()
    optimizer = Armijo(model.parameters())
    with pytest.raises(InputError, match="needs a closure"):
        optimizer.step()

    with pytest.raises(InputError, match="loss with a graph"):
        optimizer.step(lambda: loss().detach())
    with pytest.raises(InputError, match="the closure returned NoneType"):
        optimizer.step(lambda: None)
    with pytest.raises(InputError, match="c=0"):
        Armijo(model.parameters(), c=0)
