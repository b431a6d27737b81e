"""Quick max-pooling is torch's, to the bit."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from fedstep.models import pooling
from fedstep.models.module import ModuleModel
from fedstep.models.pooling import QuickMaxPool2d, with_quick_pools

WINDOWS = [2, 3, (2, 3), (3, 1), (1, 2)]
SHAPES = [(4, 3, 12, 12), (2, 5, 7, 11), (3, 6, 6)]


def quick(layer):
    found = with_quick_pools(copy.deepcopy(layer))
    assert type(found) is QuickMaxPool2d
    return found


def picture(shape, dtype=torch.float32):
    """Half of it zeros, as behind rectified units: windows have equal numbers."""
    draw = torch.Generator().manual_seed(3)
    return torch.randn(shape, generator=draw, dtype=dtype).relu_()


def value_and_gradient(layer, x):
    leaf = x.clone().requires_grad_()
    value = layer(leaf)
    draw = torch.Generator().manual_seed(4)
    weights = torch.randn(value.shape, generator=draw, dtype=value.dtype)
    (g,) = torch.autograd.grad(value, leaf, weights)
    return value, g


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("window", WINDOWS)
def test_values_and_gradients_are_those_of_torch(window, shape, dtype):
    usual = nn.MaxPool2d(window)
    x = picture(shape, dtype)
    ours = value_and_gradient(quick(usual), x)
    theirs = value_and_gradient(usual, x)
    assert torch.equal(ours[0], theirs[0])
    assert torch.equal(ours[1], theirs[1])


def test_the_first_of_equal_numbers_has_the_gradient():
    x = torch.tensor([[[0.0, 2.0], [2.0, 2.0]]])
    _, g = value_and_gradient(quick(nn.MaxPool2d(2)), x)
    assert (g != 0).tolist() == [[[False, True], [False, False]]]


def test_infinite_numbers_leave_finite_gradients():
    x = torch.full((1, 2, 4), -torch.inf)
    x[0, 0, 1] = 1.0
    ours = value_and_gradient(quick(nn.MaxPool2d(2)), x)
    theirs = value_and_gradient(nn.MaxPool2d(2), x)
    assert torch.equal(ours[0], theirs[0])
    assert torch.equal(ours[1], theirs[1])


def test_nan_is_passed_on():
    x = picture((1, 4, 4))
    x[0, 1, 1] = torch.nan
    value = quick(nn.MaxPool2d(2))(x)
    assert torch.equal(value.isnan(), nn.MaxPool2d(2)(x).isnan())


def test_a_gradient_can_be_differentiated():
    def curvature(layer):
        leaf = picture((2, 1, 4, 4), torch.float64).requires_grad_()
        (g,) = torch.autograd.grad((layer(leaf) ** 3).sum(), leaf, create_graph=True)
        (h,) = torch.autograd.grad((g * g).sum(), leaf)
        return h

    assert torch.equal(curvature(quick(nn.MaxPool2d(2))), curvature(nn.MaxPool2d(2)))


def test_inside_vmap_and_under_forward_derivatives_it_is_torchs():
    layer = quick(nn.MaxPool2d(2))
    x = picture((3, 2, 4, 4))
    assert torch.equal(torch.vmap(layer)(x), nn.MaxPool2d(2)(x))
    _, tangent = torch.func.jvp(layer, (x,), (torch.ones_like(x),))
    assert torch.equal(tangent, torch.ones_like(tangent))


def test_channels_last_is_left_to_torch(monkeypatch):
    monkeypatch.setattr(pooling._Largest, "apply", None)
    x = picture((2, 4, 6, 6)).contiguous(memory_format=torch.channels_last)
    assert torch.equal(quick(nn.MaxPool2d(2))(x), nn.MaxPool2d(2)(x))


@pytest.mark.parametrize(
    "layer",
    [
        nn.MaxPool2d(3, stride=2),
        nn.MaxPool2d(2, padding=1),
        nn.MaxPool2d(2, stride=2, dilation=2),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.MaxPool2d(2, return_indices=True),
        nn.MaxPool2d(1),
        nn.MaxPool2d(4),
        nn.AvgPool2d(2),
    ],
    ids=str,
)
def test_other_layers_stay_what_they_are(layer):
    assert type(with_quick_pools(copy.deepcopy(layer))) is type(layer)


def network():
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(1, 2, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(-3),
        nn.Linear(18, 3),
    )


def test_a_model_has_quick_pools_and_gives_usual_ones_away():
    module = network()
    model = pickle.loads(pickle.dumps(ModuleModel(module)))
    assert type(model.module[2]) is QuickMaxPool2d
    assert repr(model.module) == repr(module)
    assert type(model.load(model.init())[2]) is nn.MaxPool2d
    assert type(module[2]) is nn.MaxPool2d
