"""States made of parts have fields in code and dotted names on disk and wire."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from fedstep.core.nested import NestedState, join, part
from fedstep.core.vec import Scalar, State
from fedstep.steps.references import ZhangHager
from fedstep.steps.search import LineSearch


@dataclass(frozen=True)
class _Both(NestedState):
    step: Scalar
    inner: State
    other: State


def _both() -> _Both:
    step = torch.arange(3.0)
    return _Both(step, inner={"a": step + 1, "deep.b": step + 2}, other={})


def test_the_flat_names_are_those_of_earlier_checkpoints():
    assert list(_both().flat()) == ["step", "inner.a", "inner.deep.b"]
    assert list(LineSearch(reference=ZhangHager()).init(torch.zeros(4))) == [
        "step",
        "reference.count",
        "reference.mean",
    ]


def test_a_flat_state_gives_its_parts_back():
    again = _Both.of(_both().flat())
    assert torch.equal(again.step, torch.arange(3.0))
    assert list(again.inner) == ["a", "deep.b"]
    assert part(again.inner, "deep")["b"] is again.inner["deep.b"]
    assert again.other == {}


def test_a_part_is_found_by_its_whole_name():
    assert part({"step.a": torch.zeros(()), "steps.b": torch.ones(())}, "step").keys() == {"a"}


def test_names_of_other_owners_are_left_alone():
    shared = {**_both().flat(), "control": torch.zeros(2)}
    assert "control" not in _Both.of(shared).flat()


def test_a_missing_tensor_is_an_error_and_a_missing_part_is_empty():
    with pytest.raises(KeyError, match="step"):
        _Both.of({"inner.a": torch.zeros(())})
    assert _Both.of({"step": torch.zeros(())}).inner == {}


def test_rows_are_taken_and_put_in_every_part():
    rows = torch.tensor([2, 0])
    some = _both().take(rows)
    assert some.step.tolist() == [2.0, 0.0]
    assert some.inner["a"].tolist() == [3.0, 1.0]
    doubled = _Both(2 * some.step, inner={k: 2 * v for k, v in some.inner.items()}, other={})
    after = _both().put(rows, doubled)
    assert after.step.tolist() == [0.0, 1.0, 4.0]
    assert after.inner["deep.b"].tolist() == [4.0, 3.0, 8.0]


def test_join_and_part_are_inverse():
    inner = {"a": torch.zeros(2)}
    assert part(join(inner=inner, step=torch.ones(2)), "inner") == inner
