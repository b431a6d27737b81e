"""Samples that are read when their batch comes, with random numbers of the batch's own."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.data.arrays import as_array
from fedstep.data.forms import FieldForm
from fedstep.data.padding import TARGET_NAMES

Collate: TypeAlias = Callable[[Sequence[Any]], Any]


@contextmanager
def keyed(seed: int) -> Iterator[None]:
    """The global generators of torch, numpy and Python set to `seed`, and afterwards put back.

    Datasets draw from them and from nothing that can be handed to them.
    """
    # all three are put back: a run must not change what its caller draws afterwards
    python_state = random.getstate()
    numpy_state = np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # numpy takes 32 bits only
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)


def draws_random_numbers(read: Callable[[], Any]) -> bool:
    """Whether a reading drew from a global generator; call it inside `keyed`."""
    # by states and not by values: an augmentation may draw and change nothing
    before = _states()
    read()
    return before != _states()


def _states() -> tuple[Any, ...]:
    numpy_state: Any = np.random.get_state()
    return (
        random.getstate(),
        numpy_state[1].tobytes(),
        numpy_state[2],
        torch.get_rng_state().numpy().tobytes(),
    )


@dataclass(frozen=True)
class ReadSamples:
    """A Transform from sample numbers to samples.

    The pool of a federation that is read lazily has one field, the numbers of the samples: what
    they stand for is read here, a batch at a time. The random numbers of an augmentation are keyed
    by (seed, round, client, step), so they do not depend on who reads, in which process or when.
    """

    pool: Sequence[Any]  # every sample of every client, and what is scored, behind one another
    names: tuple[str, ...] | None  # of the fields; None: samples are tuples
    collate: Collate | None = None  # None: samples of one shape are stacked
    form: FieldForm = FieldForm()  # what model and loss take them in

    @property
    def ragged(self) -> bool:
        """Whether the batches of two clients may differ in shape."""
        return self.collate is not None

    def __call__(
        self, fields: tuple[Tensor, ...], generator: torch.Generator | None
    ) -> tuple[Tensor, ...]:
        # one field, whatever the samples have
        (numbers,) = fields
        seed = 0  # an evaluation sees the same samples every time
        if generator is not None:
            seed = int(
                torch.randint(
                    2**62,
                    (),
                    generator=generator,
                )
            )
        with keyed(seed):
            samples = [self.pool[number] for number in numbers.tolist()]
            if self.collate is None:
                batch = stacked(samples)
            else:
                batch = self.collate(samples)
        return self.form(batch_fields(batch, self.names, len(samples)))


def same_sample(
    one: Any,
    other: Any,
) -> bool:
    """Whether two readings gave the same sample."""
    if isinstance(one, Mapping):
        return all(same_sample(one[name], other[name]) for name in one)
    if isinstance(one, tuple | list):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(same_sample(a, b) for a, b in pairs)
    if isinstance(one, Tensor | np.ndarray):
        return np.array_equal(
            np.asarray(one),
            np.asarray(other),
            equal_nan=_has_nan(one),
        )
    return bool(one == other) or bool(one != one)


def _has_nan(values: Any) -> bool:
    # numpy asks of numbers only whether they are NaN
    return np.asarray(values).dtype.kind in "fc"


def stacked(samples: Sequence[Any]) -> Any:
    """Samples of one shape as columns."""
    first = samples[0]
    if isinstance(first, Mapping):
        return {name: _stack([sample[name] for sample in samples], name) for name in first}
    columns = zip(*samples, strict=True)
    return tuple(_stack(column, f"field {k}") for k, column in enumerate(columns))


def batch_fields(
    batch: Any,
    names: Sequence[str] | None,
    count: int,
) -> tuple[Tensor, ...]:
    """The fields of a collated batch, in order; each has a row for every sample."""
    if names is None:
        if not isinstance(batch, tuple | list) or len(batch) < 2:
            raise InputError(
                f"collate gives a {type(batch).__name__}: give (inputs, ..., targets) or a dict"
            )
        values = list(batch)
    else:
        missing = [name for name in names if name not in batch]
        if missing:
            raise InputError(f"collate gives no {missing[0]!r}: the first batch had it")
        values = [batch[name] for name in names]
    # collate may give lists or numpy arrays
    fields = tuple(torch.as_tensor(value) for value in values)
    for place, field in enumerate(fields):
        if field.dim() == 0 or len(field) != count:
            raise InputError(
                f"collate gives shape {tuple(field.shape)} in field {place} for {count} samples: "
                "give one row a sample"
            )
    return fields


def target_name(
    names: Sequence[str],
    what: str,
) -> str:
    """Which column is the target, by what it is called."""
    # the first of the names that is there: "labels" before "y"
    for name in TARGET_NAMES:
        if name in names:
            return name
    raise InputError(
        f"{what}: none of the columns {', '.join(names)} is called "
        f"{' or '.join(TARGET_NAMES)}: rename the target"
    )


def is_text(value: Any) -> bool:
    """Whether a value is text, or a list of texts: nothing that a model could take."""
    if isinstance(value, str | bytes):
        return True
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], str | bytes)


def bytes_of(sample: Any) -> int:
    """What a sample takes in memory."""
    if isinstance(sample, Mapping):
        return sum(bytes_of(value) for value in sample.values())
    if isinstance(sample, Tensor):
        return sample.numel() * sample.element_size()
    if isinstance(sample, str | bytes):
        return 0
    if isinstance(sample, tuple | list) and sample and not isinstance(sample[0], int | float):
        return sum(bytes_of(value) for value in sample)
    nbytes = getattr(sample, "nbytes", None)
    if nbytes is not None:
        return int(nbytes)
    if isinstance(sample, tuple | list):
        return 8 * len(sample)
    return 8


def _stack(
    values: Sequence[Any],
    name: str,
) -> Any:
    if is_text(values[0]):
        return list(values)
    rows = [as_array(value, name) for value in values]
    shapes = {tuple(row.shape) for row in rows}
    if len(shapes) > 1:
        short = min(shapes)
        long = max(shapes)
        raise InputError(
            f"samples differ in shape ({name}: {short} and {long}): "
            "give collate=fedstep.data.Pad(), or a function of your own"
        )
    return torch.stack(rows)
