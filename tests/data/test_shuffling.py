"""A part of a random order is the beginning of the whole one."""

from __future__ import annotations

import pytest
import torch

from fedstep.data import shuffling
from fedstep.data.plan import Plan, Shuffled
from fedstep.data.shuffling import shuffled_prefix


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (30, 30), (5000, 7), (100_000, 50), (10**6, 3)])
def test_it_is_the_beginning_of_the_whole_order(n, count):
    for seed in range(5):
        whole = torch.randperm(n, generator=seeded(seed))
        assert torch.equal(shuffled_prefix(n, count, seeded(seed)), whole[:count])


def test_few_places_of_many_are_drawn_alone(monkeypatch):
    def refused(*args, **kwargs):
        raise AssertionError("a whole order was drawn")

    shuffled_prefix(10**6, 5, seeded(0))  # what is found out once
    monkeypatch.setattr(torch, "randperm", refused)
    assert len(shuffled_prefix(10**6, 5, seeded(0))) == 5


def test_a_torch_that_shuffles_otherwise_is_asked_for_the_whole_order(monkeypatch):
    monkeypatch.setattr(shuffling, "_torch_draws_from_the_front", lambda: False)
    monkeypatch.setattr(shuffling, "_prefix", None)
    whole = torch.randperm(10_000, generator=seeded(3))
    assert torch.equal(shuffled_prefix(10_000, 5, seeded(3)), whole[:5])


@pytest.mark.parametrize("samples", [3, 50, 99, 20_000])
@pytest.mark.parametrize("steps", [1, 5, 12])
def test_a_walk_is_that_of_whole_passes(samples, steps):
    plan = Plan(batch=10, steps=steps)
    endless = Shuffled()(samples, 0, 4, 2)
    batches = []
    while len(batches) < steps:
        batches += next(endless).split(10)
    walk = plan.walk(samples, 0, 4, 2)
    assert walk.sizes == tuple(len(batch) for batch in batches[:steps])
    assert torch.equal(walk.positions, torch.cat(batches[:steps]))
