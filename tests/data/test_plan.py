"""Many clients' walks are those of one at a time."""

from __future__ import annotations

import pytest
import torch

from fedstep.data.plan import InOrder, Plan, Shuffled

SIZES = [8, 1, 13, 8, 4]
CLIENTS = [3, 0, 9, 4, 10**6]


@pytest.mark.parametrize(
    "plan",
    [
        Plan(4, steps=3),
        Plan(4, steps=7),
        Plan(5, steps=0),
        Plan(5, steps=None, epochs=2),
        Plan(4, steps=3, order=InOrder()),
    ],
    ids=repr,
)
def test_walks_are_those_of_one_at_a_time(plan):
    together = plan.walks(SIZES, 5, 2, CLIENTS)
    for walk, n, client in zip(together, SIZES, CLIENTS, strict=True):
        alone = plan.walk(n, 5, 2, client)
        assert torch.equal(walk.positions, alone.positions)
        assert walk.sizes == alone.sizes


class ShuffledElsewhere(Shuffled):
    """A kind of its own, so that a plan takes its passes one by one."""


@pytest.mark.parametrize("settings", [{"steps": 3}, {"steps": 7}, {"steps": None, "epochs": 2}])
def test_the_short_cut_draws_what_the_order_draws(settings):
    short = Plan(4, **settings).walks(SIZES, 5, 2, CLIENTS)
    long = Plan(4, **settings, order=ShuffledElsewhere()).walks(SIZES, 5, 2, CLIENTS)
    for walk, expected in zip(short, long, strict=True):
        assert torch.equal(walk.positions, expected.positions)
        assert walk.sizes == expected.sizes
