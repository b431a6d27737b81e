"""What a new user does with the optimisers: it works, or one line says what to do."""

from __future__ import annotations

import io
import warnings

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedstep import InputError
from fedstep.local.directions import Momentum
from fedstep.local.orthogonal import Orthogonal, orthogonalised
from fedstep.optim import Armijo, Searching, lean_search
from fedstep.steps.fixed import Constant

g = torch.Generator().manual_seed(0)
X = torch.randn(60, 4, generator=g)
Y = (X @ torch.randn(4, 3, generator=g)).argmax(1)

MAKES = pytest.mark.parametrize(
    "make",
    [Armijo, lambda params: Searching(params, lean_search())],
    ids=["armijo", "lean"],
)


def net() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def value(model: nn.Module, inputs: torch.Tensor = X) -> float:
    with torch.no_grad():
        return float(cross_entropy(model(inputs), Y))


class Words(nn.Module):
    """An embedding whose gradients are sparse."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(12, 5, sparse=sparse)
        self.head = nn.Linear(5, 3)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(words))


def words(sparse: bool) -> Words:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return Words(sparse)


@MAKES
@pytest.mark.parametrize("calls_backward", [False, True])
def test_a_sparse_embedding_takes_the_steps_of_a_dense_one(make, calls_backward):
    text = torch.randint(12, (60,), generator=torch.Generator().manual_seed(3))
    ends = []
    for sparse in (False, True):
        model = words(sparse)
        optimizer = make(model.parameters())

        def closure(model=model):
            loss = cross_entropy(model(text), Y)
            if calls_backward:
                model.zero_grad()
                loss.backward()
            return loss

        for _ in range(6):
            optimizer.step(closure)
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.allclose(*ends, rtol=1e-5, atol=1e-6)


@MAKES
def test_a_batch_of_nan_is_refused_and_the_next_one_goes_on(make):
    model = net()
    optimizer = make(model.parameters())
    optimizer.step(lambda: cross_entropy(model(X), Y))
    before = [p.clone() for p in model.parameters()]
    optimizer.step(lambda: cross_entropy(model(X * torch.nan), Y))
    assert optimizer.failed
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    at = value(model)
    optimizer.step(lambda: cross_entropy(model(X), Y))
    assert not optimizer.failed
    assert value(model) < at


@MAKES
def test_batches_that_are_accumulated_in_the_closure_are_one_batch(make):
    ends = []
    for parts in (1, 3):
        model = net().double()
        optimizer = make(model.parameters())

        def closure(model=model, parts=parts):
            model.zero_grad()
            total = 0.0
            for inputs, targets in zip(X.double().chunk(parts), Y.chunk(parts), strict=True):
                loss = cross_entropy(model(inputs), targets) / parts
                loss.backward()
                total = total + loss.detach()
            return total

        for _ in range(5):
            optimizer.step(closure)
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.allclose(*ends, rtol=1e-9, atol=1e-9)


@MAKES
def test_a_compiled_model_is_searched_as_it_is(make):
    ends = []
    for compiled in (False, True):
        model = net()
        call = torch.compile(model, backend="eager") if compiled else model
        optimizer = make(model.parameters())
        for _ in range(4):
            optimizer.step(lambda call=call: cross_entropy(call(X), Y))
        ends.append(value(model))
    assert ends[0] == pytest.approx(ends[1], rel=1e-5)


@MAKES
def test_a_scheduler_of_the_learning_rate_is_told_once_that_nobody_reads_it(make):
    model = net()
    optimizer = make(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(4):
            optimizer.step(lambda: cross_entropy(model(X), Y))
            scheduler.step()
    assert sum("finds its own steps" in str(w.message) for w in told) == 1


@MAKES
def test_a_rate_in_a_group_is_told_and_a_plain_or_saved_run_is_not(make):
    model = net()
    with pytest.warns(UserWarning, match="finds its own steps"):
        make([{"params": model.parameters(), "lr": 0.1}]).step(lambda: cross_entropy(model(X), Y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer = make(model.parameters())
        for _ in range(3):
            optimizer.step(lambda: cross_entropy(model(X), Y))
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        other = make(model.parameters())
        other.load_state_dict(torch.load(file, weights_only=True))
        other.step(lambda: cross_entropy(model(X), Y))


def test_layers_that_are_thawed_join_in_and_the_momentum_begins_anew():
    model = net()
    model[0].requires_grad_(False)
    optimizer = Searching(model.parameters(), lean_search(), Momentum(0.5))
    optimizer.step(lambda: cross_entropy(model(X), Y))
    frozen = model[0].weight.clone()
    model[0].requires_grad_(True)
    for _ in range(3):
        optimizer.step(lambda: cross_entropy(model(X), Y))
    assert not torch.equal(frozen, model[0].weight)


@MAKES
def test_a_model_without_anything_to_train_is_one_line(make):
    model = net().requires_grad_(False)
    with pytest.raises(InputError, match="no parameter requires a gradient"):
        make(model.parameters()).step(lambda: cross_entropy(model(X), Y))


@MAKES
def test_complex_parameters_are_one_line_with_the_remedy(make):
    model = nn.Linear(4, 3, dtype=torch.complex64)
    with pytest.raises(InputError, match="view_as_real"):
        make(model.parameters()).step(lambda: model(X.to(torch.complex64)).abs().mean())


def test_muon_is_a_direction_that_learns_the_shapes_by_itself():
    model = net().double()
    weight = model[0].weight.detach().clone()
    loss = cross_entropy(model(X.double()), Y)
    slope = torch.autograd.grad(loss, model[0].weight)[0]
    muon = Orthogonal(beta=0.0, decay=0.0)
    optimizer = Searching(model.parameters(), Constant(0.05), muon)
    optimizer.step(lambda: cross_entropy(model(X.double()), Y))
    turned = orthogonalised(slope)
    assert torch.allclose(model[0].weight, weight - 0.05 * 2**0.5 * turned, rtol=0, atol=1e-9)
