"""What a client's gradients along its path say."""

from __future__ import annotations

import torch

from fedstep.core.vec import Scalar, Vec, scale
from fedstep.local.trace import Trace


def inverse(count: Scalar) -> Scalar:
    """1 / count, 0 where there is nothing to divide."""
    some = count > 0
    return torch.where(some, 1 / torch.where(some, count, 1.0), 0.0)


def change_to_mean(control: Vec, gradients: Vec, trace: Trace) -> Vec:
    """From the old control to the mean of the gradients; 0 for a client without a step."""
    mean = scale(inverse(trace.steps), gradients)
    took = (trace.steps > 0).to(control.dtype)
    return scale(took, mean - control)
