"""Runs are guarded unless they say otherwise; methods are not."""

from __future__ import annotations

import pytest
import torch

from fedstep import InputError, fit, zoo
from fedstep.server import NormLimit, Open
from fedstep.study.plan import Job, Setting
from fedstep.training.arguments import guarded


def clients(wrong=1.0):
    g = torch.Generator().manual_seed(0)
    made = []
    for client in range(6):
        x = torch.randn(12, 4, generator=g)
        y = (x[:, 0] > 0).long()
        made.append((wrong * x, 1 - y) if client == 2 and wrong != 1 else (x, y))
    return made


def run(**options):
    return fit(
        torch.nn.Linear(4, 2), clients(30.0), "fedavg(step=1.0)", 3, progress=False, **options
    )


def test_fit_shortens_what_is_out_of_proportion_unless_told_not_to():
    assert sum(row.clipped for row in run().rows) > 0
    assert sum(row.clipped for row in run(guard=False).rows) == 0
    assert sum(row.clipped for row in run(guard=NormLimit(1e9)).rows) == 0


def test_a_guard_of_its_own_is_kept_and_methods_have_none():
    assert zoo.fedavg().guard == Open()
    own = guarded(zoo.fedavg(), NormLimit(3.0))
    assert guarded(own, True).guard == NormLimit(3.0)
    assert guarded(own, False).guard == NormLimit(3.0)
    assert guarded(zoo.fedavg(), True).guard == NormLimit()
    with pytest.raises(InputError, match="guard='on'"):
        guarded(zoo.fedavg(), "on")


def test_runs_of_before_there_was_a_guard_keep_their_folders():
    old = Job(Setting("digits", "mlp(inputs=64, hidden=8, classes=10)", guard=False), "fedavg", 0)
    assert old.digest == "f1ad9708c80e0b41"
    new = Job(Setting("digits", "mlp(inputs=64, hidden=8, classes=10)"), "fedavg", 0)
    assert new.digest != old.digest
