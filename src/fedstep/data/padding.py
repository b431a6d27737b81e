"""Samples of unequal length as one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedstep.core.errors import InputError

TARGET_NAMES = ("labels", "label", "targets", "target", "y")


@dataclass(frozen=True)
class Pad:
    """A `collate` that fills short sequences up to the longest of the batch.

    Inputs are filled with `value`, targets with `ignored`, which counts for nothing in losses and
    metrics (torch's and Hugging Face's ignore_index). Targets are the last of a tuple, or what is
    called labels, label, targets, target or y. Only the first axis may differ in length.

    >>> batch = Pad()([(torch.tensor([5, 6, 7]), torch.tensor(1)), (torch.tensor([8]), torch.tensor(0))])
    >>> batch[0].tolist(), batch[1].tolist()
    ([[5, 6, 7], [8, 0, 0]], [1, 0])
    """

    value: float = 0
    ignored: int = -100

    def __call__(self, samples: Sequence[Any]) -> Any:
        first = samples[0]
        if isinstance(first, Mapping):
            return {
                name: self._column(
                    samples,
                    name,
                    name in TARGET_NAMES,
                )
                for name in first
            }
        # targets are the last of a tuple, as everywhere
        last = len(first) - 1
        return tuple(
            self._column(
                samples,
                place,
                place == last,
            )
            for place in range(len(first))
        )

    def _column(
        self,
        samples: Sequence[Any],
        key: Any,
        is_target: bool,
    ) -> Any:
        values = [sample[key] for sample in samples]
        # a text stays as it is: whoever reads the batch leaves it out, or says so
        if isinstance(values[0], str):
            return values
        rows = [torch.as_tensor(value) for value in values]
        # single numbers have no length to fill up
        if rows[0].dim() == 0:
            return torch.stack(rows)
        fill = self.value
        if is_target:
            fill = self.ignored
        return _filled(rows, fill)


def _filled(
    rows: Sequence[Tensor],
    fill: float,
) -> Tensor:
    shapes = {tuple(row.shape[1:]) for row in rows}
    if len(shapes) > 1:
        raise InputError(f"Pad: samples differ in more than their length: {sorted(shapes)}")
    return torch.nn.utils.rnn.pad_sequence(
        list(rows),
        batch_first=True,
        padding_value=fill,
    )
