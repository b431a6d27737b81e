"""A label that the model has no output for is told before the first round, with its client."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

import fedstep
from fedstep import InputError

INPUTS = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
GOOD = torch.arange(9) % 2


def with_label(label: int) -> torch.Tensor:
    labels = GOOD.clone()
    labels[4] = label
    return labels


def train(labels: torch.Tensor, test: torch.Tensor = GOOD, **settings: object) -> fedstep.Fit:
    clients = [(INPUTS, GOOD), (INPUTS, labels), (INPUTS, GOOD)]
    return fedstep.fit(nn.Linear(3, 2), clients, rounds=1, batch=2, test=(INPUTS, test), **settings)


@pytest.mark.parametrize("label", [2, 7, -1])
@pytest.mark.parametrize("loss", [functional.cross_entropy, nn.CrossEntropyLoss()])
def test_a_label_out_of_range_names_client_and_value(label, loss):
    with pytest.raises(InputError, match=rf"^client 1: label {label} is outside 0\.\.1: .*$"):
        train(with_label(label), loss=loss)


def test_a_test_label_out_of_range_is_named():
    with pytest.raises(InputError, match=r"^test, sample 4: label 5 is outside 0\.\.1"):
        train(GOOD, test=with_label(5))


def test_a_label_that_is_to_be_ignored_is_none_of_our_business():
    loss = partial(functional.cross_entropy, ignore_index=3)
    assert len(train(with_label(3), loss=loss).rows) == 1


def test_targets_that_are_no_classes_are_left_alone():
    clients = [(INPUTS, torch.full((9, 1), 7.0))] * 2
    assert len(fedstep.fit(nn.Linear(3, 1), clients, rounds=1, batch=2, loss="mse").rows) == 1
