"""A block of a linear model without vmap is what vmap makes of it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedstep.core.types import Batch, Output
from fedstep.models import linear_block
from fedstep.models.flat import FlatModel
from fedstep.models.linear_line import LazyLine
from fedstep.models.module import ModuleModel

CLIENTS, SAMPLES, FEATURES, CLASSES = 5, 7, 6, 3


def modules():
    return {
        "layer": nn.Linear(FEATURES, CLASSES),
        "without bias": nn.Linear(FEATURES, CLASSES, bias=False),
        "pictures": nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, CLASSES)),
    }


def block(kind, mask=False):
    draw = torch.Generator().manual_seed(1)
    shape = (CLIENTS, SAMPLES, FEATURES)
    inputs = torch.randn(shape, generator=draw, dtype=torch.float64)
    if kind == "pictures":
        inputs = inputs.unflatten(-1, (2, 3))
    targets = torch.randint(CLASSES, shape[:2], generator=draw)
    some = None
    if mask:
        some = torch.rand(shape[:2], generator=draw) < 0.7
        some[:, 0] = True
    seeds = torch.arange(CLIENTS)
    return Batch((inputs, targets), share=seeds / 5.0, seed=seeds, mask=some)


def model_at(kind):
    torch.manual_seed(2)
    model = ModuleModel(modules()[kind].double())
    x = model.init() + 0.1 * torch.randn(CLIENTS, model.dim, dtype=torch.float64)
    return model, x.requires_grad_()


@pytest.mark.parametrize("large", [0, linear_block.LARGE], ids=["in place", "copied"])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("kind", list(modules()))
def test_losses_predictions_and_gradients_are_those_of_a_vmapped_pass(
    kind, mask, large, monkeypatch
):
    monkeypatch.setattr(linear_block, "LARGE", large)
    model, x = model_at(kind)
    batch = block(kind, mask)
    quick = model.block(x, batch)
    vmapped = FlatModel.block(model, x, batch)
    assert torch.allclose(quick.loss, vmapped.loss, rtol=1e-12)
    assert torch.allclose(quick.predictions, vmapped.predictions, rtol=1e-12)
    (g,) = torch.autograd.grad(quick.loss.sum(), x)
    (expected,) = torch.autograd.grad(vmapped.loss.sum(), x)
    assert torch.allclose(g, expected, rtol=1e-10)


def test_the_gradient_has_a_derivative_where_it_is_asked_for():
    model, x = model_at("layer")
    batch = block("layer")

    def curvature(out: Output) -> torch.Tensor:
        (g,) = torch.autograd.grad(out.loss.sum(), x, create_graph=True)
        (product,) = torch.autograd.grad((g * g).sum(), x)
        return product

    expected = curvature(FlatModel.block(model, x, batch))
    assert torch.allclose(curvature(model.block(x, batch)), expected, rtol=1e-10)


def test_texts_are_left_to_the_vmapped_pass():
    # a layer that is applied at every place of a sequence
    torch.manual_seed(0)
    model = ModuleModel(nn.Linear(4, 2), lambda p, t: (p - t).square().mean((1, 2)))
    inputs = torch.randn(3, 5, 6, 4)
    batch = Batch((inputs, torch.zeros(3, 5, 6, 2)), torch.ones(3), torch.arange(3))
    x = model.init().expand(3, -1)
    assert torch.equal(model.block(x, batch).loss, FlatModel.block(model, x, batch).loss)


def test_the_product_along_a_line_is_made_for_those_who_search():
    model, x = model_at("layer")
    batch = block("layer")
    asked = []

    def predict(d, some):
        asked.append(len(d))
        return model.predicted(d, some)

    # not the same for all classes: a softmax would not see it
    d = torch.randn(x.shape, generator=torch.Generator().manual_seed(5), dtype=x.dtype)
    p = model.predicted(x, batch).detach()
    line = LazyLine(model, predict, p, d, batch)
    assert asked == []  # nobody has walked along it
    active = torch.tensor([False, True, False, False, True])
    eta = torch.full((CLIENTS,), 0.3, dtype=torch.float64)
    values = line.among(active)(eta, None).loss
    assert asked == [2]
    expected = model(x + 0.3 * d, batch).loss
    assert torch.allclose(values[active], expected[active], rtol=1e-12)
    assert torch.allclose(line(eta, None).loss, expected, rtol=1e-12)
    line(eta, None)
    assert asked == [2, CLIENTS]  # once for all trials
