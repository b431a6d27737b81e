"""A run over nodes has the bits of `Sequential` alone, whatever happens on the way."""

from __future__ import annotations

import pytest
from fakes import courier, deployment, finished, same, simulated

from fedstep.spec import methods


@pytest.mark.parametrize("method", sorted(methods()))
def test_every_method_has_the_bits_and_rows_of_one_process(method):
    server, rows = simulated(method)
    other, other_rows = finished(deployment(method, courier()))
    assert same(other, server)
    assert other_rows == rows
