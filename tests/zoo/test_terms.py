"""Values and slopes of the terms."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedstep import InputError
from fedstep.core.exchange import ClientMemory, SharedState
from fedstep.core.types import Batch, Context, Output
from fedstep.local.terms import L2, Linear, Proximal

BATCH = Batch((torch.zeros(1),), torch.tensor(1.0), torch.tensor(0))
ANCHOR, PLUS, MINUS = (
    torch.tensor(v, dtype=torch.float64)
    for v in ([1.0, -2.0, 0.5], [0.3, 0.1, -1.0], [1.0, 1.0, 2.0])
)


def no_model(x, batch):
    raise AssertionError("a term asked for the model")


CTX = Context(ANCHOR, no_model, SharedState({"c": PLUS}), ClientMemory({"c": MINUS}))  # type: ignore[arg-type]
TERMS = {
    "proximal": (
        Proximal(0.4),
        lambda x: 0.2 * float(((x - ANCHOR) ** 2).sum()),
        lambda x: 0.4 * (x - ANCHOR),
    ),
    "l2": (L2(0.4), lambda x: 0.2 * float((x**2).sum()), lambda x: 0.4 * x),
    "plus": (Linear(plus="c"), lambda x: float(PLUS @ x), lambda x: PLUS),
    "minus": (Linear(minus="c"), lambda x: -float(MINUS @ x), lambda x: -MINUS),
    "both": (Linear("c", "c"), lambda x: float((PLUS - MINUS) @ x), lambda x: PLUS - MINUS),
}
points = st.lists(st.floats(-10, 10), min_size=3, max_size=3).map(
    lambda v: torch.tensor(v, dtype=torch.float64)
)


@pytest.mark.parametrize("name", TERMS)
@given(x=points)
def test_value_and_slope_are_those_of_the_formula(name, x):
    term, value, slope = TERMS[name]
    leaf = x.clone().requires_grad_()
    got = term(leaf, Output(torch.tensor(0.0)), BATCH, CTX)
    (g,) = torch.autograd.grad(got, leaf)
    assert float(got.detach()) == pytest.approx(value(x), abs=1e-12)
    assert torch.allclose(g, slope(x), atol=1e-12)


@pytest.mark.parametrize("name", TERMS)
def test_a_block_has_a_value_a_row(name):
    term, value, _ = TERMS[name]
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).double()
    ctx = Context(
        ANCHOR, no_model, SharedState({"c": PLUS}), ClientMemory({"c": MINUS.expand(4, -1)})
    )  # type: ignore[arg-type]
    assert term(x, Output(torch.zeros(4)), BATCH, ctx).tolist() == pytest.approx(
        [value(row) for row in x]
    )


def test_impossible_terms_are_refused():
    for make in (lambda: Proximal(-1.0), lambda: L2(-1.0), Linear):
        with pytest.raises(InputError):
            make()
