"""FEMNIST with ink 1 and background 0; LEAF's white 1 conditions linear models badly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedstep.data.sets.femnist import FEMNIST
from fedstep.data.sets.record import Changed

if TYPE_CHECKING:
    from torch import Tensor


def _invert(inputs: Tensor) -> Tensor:
    return 1 - inputs


FEMNIST_INK = Changed(
    name="femnist-ink",
    what="the same with ink 1 on 0, as MNIST has it",
    labels=FEMNIST.labels,
    folders=FEMNIST.folders,
    needs=FEMNIST.needs,
    base=FEMNIST,
    change=_invert,
)
