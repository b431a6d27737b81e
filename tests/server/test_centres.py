"""Centres of a list of deltas: what they are, that one client cannot move them, and that they are the same for every executor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_guards import METHODS, error_after

from fedstep import InputError, build
from fedstep.core.aggregate import Aggregate
from fedstep.execute import Cohort, Sequential
from fedstep.server import (
    ByList,
    BySamples,
    CoordinateMedian,
    GeometricMedian,
    Krum,
    Open,
    SamplesUpTo,
    TrimmedMean,
)

CENTRES = (CoordinateMedian(), TrimmedMean(0.2), GeometricMedian(), Krum(1, keep=3))
LISTS = st.lists(
    st.lists(st.floats(-10, 10), min_size=3, max_size=3),
    min_size=3,
    max_size=12,
)


@settings(max_examples=20)
@given(LISTS)
def test_the_coordinate_median_is_numpys(rows):
    deltas = torch.tensor(rows, dtype=torch.float64)
    assert np.allclose(CoordinateMedian()(deltas).numpy(), np.median(rows, axis=0), atol=1e-12)


@settings(max_examples=20)
@given(LISTS, st.floats(0, 0.49))
def test_the_trimmed_mean_leaves_out_the_ends(rows, share):
    ends = min(int(np.ceil(share * len(rows))), (len(rows) - 1) // 2)
    inner = np.sort(rows, axis=0)[ends : len(rows) - ends]
    centre = TrimmedMean(share)(torch.tensor(rows, dtype=torch.float64))
    assert np.allclose(centre.numpy(), inner.mean(0), atol=1e-12)


@settings(max_examples=20)
@given(LISTS)
def test_no_point_nearby_has_a_smaller_sum_of_distances_than_the_geometric_median(rows):
    deltas = torch.tensor(rows, dtype=torch.float64)
    centre = GeometricMedian(steps=80)(deltas)

    def cost(point):
        return float((deltas - point).norm(dim=1).sum())

    for axis in range(3):
        for sign in (-0.1, 0.1):
            beside = centre.clone()
            beside[axis] += sign
            assert cost(centre) <= cost(beside) + 1e-2


@settings(max_examples=20)
@given(LISTS, st.integers(0, 2))
def test_krum_takes_the_delta_that_is_nearest_to_its_neighbours(rows, hostile):
    deltas = np.array(rows)
    scores = []
    for one in deltas:
        squares = np.sort(((deltas - one) ** 2).sum(1))
        scores.append(squares[1 : 1 + max(1, len(rows) - hostile - 2)].sum())
    centre = Krum(hostile)(torch.tensor(rows, dtype=torch.float64)).numpy()
    taken = min(
        scores[k] for k in range(len(rows)) if np.allclose(deltas[k], centre, rtol=0, atol=1e-12)
    )
    assert taken <= min(scores) + 1e-9


@pytest.mark.parametrize("centre", CENTRES, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("factor", [1e6, -10.0])
def test_one_attacker_of_ten_does_not_take_the_model(centre, factor):
    honest, _, _ = error_after(METHODS[0], Open())
    guarded, _, _ = error_after(METHODS[0], ByList(centre), factor)
    assert guarded < honest + 0.2


@pytest.mark.parametrize("centre", CENTRES, ids=lambda c: type(c).__name__)
def test_a_block_and_one_by_one_give_the_same(centre):
    _, _, one = error_after(METHODS[0], ByList(centre), executor=Sequential(), rounds=3)
    _, _, block = error_after(METHODS[0], ByList(centre), executor=Cohort(4), rounds=3)
    assert torch.allclose(one, block, rtol=1e-10, atol=1e-12)


def test_only_deltas_that_count_are_listed_and_lists_add_up():
    deltas = torch.tensor([[1.0], [float("nan")], [3.0]])
    weight = torch.tensor([1.0, 1.0, 0.0])
    first = Aggregate.of(deltas, {}, weight, listed=True)
    alone = Aggregate.of(torch.tensor([7.0]), {}, torch.tensor(1.0), listed=True)
    assert torch.cat((first + alone).deltas).flatten().tolist() == [1.0, 7.0]
    assert Aggregate.of(deltas, {}, weight).deltas == ()


def test_a_client_that_claims_many_samples_weighs_no_more_than_allowed():
    samples = torch.tensor([10, 50, 10_000])
    assert SamplesUpTo(most=50.0)(samples).tolist() == [10.0, 50.0, 50.0]
    assert torch.equal(SamplesUpTo(most=1e9)(samples), BySamples()(samples))
    method = build("fedavg(weighting=SamplesUpTo(most=50))")
    assert method.weighting == SamplesUpTo(50)


def test_wrong_settings_are_named():
    for make in (
        lambda: TrimmedMean(0.5),
        lambda: GeometricMedian(0),
        lambda: GeometricMedian(eps=0.0),
        lambda: Krum(-1),
        lambda: Krum(keep=0),
        lambda: ByList(few=2),
        lambda: SamplesUpTo(0.0),
    ):
        with pytest.raises(InputError, match=r"\w+\(\w+="):
            make()
    with pytest.raises(InputError, match="centre"):
        replace(ByList(), centre=CoordinateMedian)
