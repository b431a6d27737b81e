"""How large values are, by counts alone: a histogram of their logarithms."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from fedstep.core.aggregate import Vote

BINS_AN_OCTAVE = 8  # a quantile is known to 9 %
OCTAVES = 150  # on either side of 1: more than float32 holds
BINS = 2 * OCTAVES * BINS_AN_OCTAVE
OCTAVE = log(2.0)


def bin_of_length(norms: Tensor) -> Tensor:
    """The number of the bin that each norm lies in; 0 holds zero and all that is too small."""
    return _bin(norms.double().log2())


def bin_of_log(logs: Tensor) -> Tensor:
    """The same of a number that is given by its natural logarithm."""
    return _bin(logs.double() / OCTAVE)


def vote(bins: Tensor) -> Vote:
    """One count a client: their sum is the histogram."""
    return Vote(bins, BINS)


def log_median(histogram: Tensor) -> float | None:
    """The logarithm of the upper end of the bin with the lower median; None where nobody counts.

    The lowest bin does not count: who sends a zero has said nothing.
    """
    below = histogram[1:].double().cumsum(0)
    if not bool(below[-1] > 0):
        return None
    place = 1 + int(torch.searchsorted(below, below[-1] / 2))
    return (place + 1 - BINS // 2) / BINS_AN_OCTAVE * OCTAVE


def speakers(histogram: Tensor) -> int:
    """How many have said anything."""
    return int(histogram[1:].sum())


def _bin(octaves: Tensor) -> Tensor:
    place = torch.floor(octaves * BINS_AN_OCTAVE) + BINS // 2
    # an update that is not finite is rejected later, and its bin does not count: it must be one
    return place.nan_to_num(nan=0.0).clamp(0, BINS - 1).long()
