"""Sums of what clients send."""

from __future__ import annotations

import pytest
import torch

from fedstep.core.aggregate import Aggregate


def summand(length: float, number: float = 1.0) -> Aggregate:
    """One client's delta of two such coordinates, and a number that it sends."""
    delta = torch.full((2,), length)
    return Aggregate.of(delta, {"number": torch.tensor(number)}, torch.tensor(1.0))


@pytest.mark.parametrize(
    ("one", "usable"),
    [
        (summand(1.0), True),
        # float32 ends at 3.4e38: 2 * 1e38 is a square that can be summed, twice that is not
        (summand(1e19), False),
        (summand(1.0, number=3e38), False),
    ],
    ids=["ordinary", "squares", "messages"],
)
def test_a_sum_that_overflows_is_not_usable(one, usable):
    assert one.usable
    assert (one + one).usable is usable
