"""Keys depend on all of their parts, and many at once are those of one at a time."""

from __future__ import annotations

import pytest

from fedstep.core.seeds import key, keys


def test_many_keys_are_those_of_one_at_a_time():
    clients = [0, 7, 8, 10**6, -1]
    expected = [key(3, 4, client, 2, "forward") for client in clients]
    assert keys([3, 4], clients, [2, "forward"]) == expected
    assert keys([], [5], []) == [key(5)]
    assert keys([1], [], ["x"]) == []


def test_keys_stay_what_they_were():
    # runs are remade from their seeds: another number would be another run
    assert key(0, 1, 2, "batches") == 6299455767221829411
    assert key(0, 1, 2, "batches") != key(0, 12, "batches")


def test_a_fraction_is_refused_wherever_it_stands():
    for parts in ([1.0], [2], []), ([1], [2.0], []), ([1], [2], [3.0]):
        with pytest.raises(TypeError):
            keys(*parts)
