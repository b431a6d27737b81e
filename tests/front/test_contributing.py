"""The worked example for contributors does what it says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import fedstep
from fedstep import zoo
from fedstep.algorithm import Algorithm
from fedstep.execute import Cohort, Sequential

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
PART, METHOD = re.findall(r"```python\n(.*?)```", TEXT, re.S)


def method(**settings):
    names = {"__name__": __name__, "Algorithm": Algorithm, "replace": replace, "fedavg": zoo.fedavg}
    exec(PART + METHOD, names)
    return names["qfedavg"](**settings)


def fit(algorithm, executor=None):
    g = torch.Generator().manual_seed(0)
    data = [
        (torch.randn(n, 3, generator=g), torch.randint(2, (n,), generator=g)) for n in (5, 9, 20)
    ]
    torch.manual_seed(0)
    return fedstep.fit(
        torch.nn.Linear(3, 2), data, algorithm, rounds=3, executor=executor or Sequential()
    ).x


def test_the_example_reduces_to_what_it_names():
    assert torch.allclose(fit(method(q=0.0)), fit(zoo.fedavg()), atol=1e-6)
    assert not torch.allclose(fit(method(q=1.0)), fit(zoo.fedavg()), atol=1e-4)


def test_the_example_serves_blocks_of_clients():
    assert torch.allclose(fit(method()), fit(method(), Cohort()), atol=1e-6)


def test_the_example_is_not_in_the_zoo_already():
    name = re.search(r"def (\w+)", METHOD)[1]
    assert name not in zoo.__all__


@pytest.mark.parametrize("line", ["Paper:", "Special case:"])
def test_the_example_is_documented_as_the_zoo_is(line):
    assert line in METHOD
