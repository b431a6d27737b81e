"""The quantiles of the steps are torch's, also where all steps are one."""

from __future__ import annotations

from math import isnan

import pytest
import torch

from fedstep.local.trace import StepRecord, Trace
from fedstep.run.record import QUANTILES, _step_quantiles
from fedstep.steps.rule import Outcome


def trace(steps):
    sizes = torch.tensor(steps)
    records = [StepRecord.of(torch.ones(()), Outcome.free(size)) for size in sizes.unbind()]
    return Trace.of(records, torch.zeros(2), forwards=1, backwards=1)


@pytest.mark.parametrize("steps", [[0.1], [0.3, 0.3, 0.3], [0.1, 0.4, 0.2], [0.5, 0.25]])
def test_quantiles_are_those_of_torch(steps):
    walked = trace(steps)
    sizes = walked.sizes.double()
    expected = sizes.quantile(sizes.new_tensor(QUANTILES)).tolist()
    assert _step_quantiles([walked]) == tuple(expected)


def test_failed_searches_have_no_step():
    assert _step_quantiles([trace([0.0, 0.2, 0.0])]) == tuple([pytest.approx(0.2)] * len(QUANTILES))
    assert all(isnan(q) for q in _step_quantiles([trace([0.0])]))
