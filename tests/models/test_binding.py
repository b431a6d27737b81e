"""A module run with other tensors in the place of its own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedstep.models.binding import Binding


class Tied(nn.Module):
    """Two layers with one weight, a buffer, and a parameter that is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("shift", torch.ones(3))
        self.register_parameter("absent", None)

    def forward(self, x, times=1.0):
        return self.second(self.first(x)).tanh() * times + self.shift


def others_for(module):
    """Other values for all that a module holds, by name."""
    draw = torch.Generator().manual_seed(0)
    held = [*module.named_parameters(), *module.named_buffers()]
    return {name: torch.randn(value.shape, generator=draw) for name, value in held}


@pytest.mark.parametrize(
    ("module", "inputs"),
    [
        (Tied(), torch.ones(2, 3)),
        (nn.LSTM(3, 4, 2), torch.ones(5, 3)),
        (nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)), torch.ones(2, 3)),
    ],
    ids=["tied", "lstm", "weight norm"],
)
def test_a_bound_module_returns_what_functional_call_returns(module, inputs):
    values = others_for(module)
    bound = Binding(module).call(values, (inputs,), {})
    called = torch.func.functional_call(module, values, (inputs,))
    for one, other in zip(
        torch.utils._pytree.tree_leaves(bound),
        torch.utils._pytree.tree_leaves(called),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_both_layers_of_a_tied_weight_hold_the_other_value():
    module = Tied()
    values = {"first.weight": torch.eye(3), "second.bias": torch.zeros(3)}
    x = torch.tensor([[1.0, 2.0, 3.0]])
    assert torch.equal(Binding(module).call(values, (x,), {"times": 0.0}), torch.ones(1, 3))
    assert torch.allclose(Binding(module).call(values, (x,), {}), x.tanh() + 1)


def test_the_module_has_its_own_again_after_a_call_that_fails():
    module = Tied()
    own = {name: id(value) for name, value in module.named_parameters()}
    with pytest.raises(RuntimeError):
        Binding(module).call(others_for(module), (torch.ones(2, 4),), {})
    assert {name: id(value) for name, value in module.named_parameters()} == own
    assert module.second.weight is module.first.weight
