"""What every rule of dealing shares: its form, and the checks of what it is given."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedstep.core.errors import InputError
from fedstep.core.seeds import key
from fedstep.data.parts import Index, Parts


class Partitioner(Protocol):
    """A rule that deals samples to clients by their labels, or by natural ids.

    The same seed always gives the same parts.
    """

    def __call__(
        self,
        labels: ArrayLike,
        seed: int = 0,
    ) -> Parts: ...


def random(
    seed: int,
    rule: str,
) -> np.random.Generator:
    """The numbers a rule draws: each rule has its own, so that two rules of one seed share none."""
    return np.random.default_rng(
        key(
            seed,
            "partition",
            rule,
        )
    )


def check_positive(
    rule: object,
    name: str,
    value: float,
) -> None:
    """Refuse a setting that is not a positive number."""
    if not 0 < value < float("inf"):
        raise InputError(f"{rule}: {name} must be positive and finite")


def check_count(
    rule: object,
    name: str,
    value: int,
) -> None:
    """Refuse a setting that is not a whole number from 1."""
    # 3.0 is refused too: a rule of a study file that says so was not meant
    if not isinstance(value, int) or value < 1:
        raise InputError(f"{rule}: {name} must be a whole number, 1 or more")


def share(
    rule: object,
    clients: int,
    total: int,
) -> int:
    """Samples for each where all get the same number."""
    if clients > total:
        raise InputError(
            f"{rule}: {total} samples do not suffice for {clients} parts: lower clients"
        )
    return total // clients


def column(labels: ArrayLike) -> NDArray[Any]:
    """The labels as an array."""
    # a list, an array or a tensor
    array = np.asarray(labels)
    if array.ndim != 1 or len(array) == 0:
        raise InputError(f"the labels have shape {array.shape}: give one label for each sample")
    return array


def by_class(labels: ArrayLike) -> Parts:
    """The samples of each class that occurs, ascending."""
    # ids may be any sortable thing, strings too
    classes, places = np.unique(column(labels), return_inverse=True)
    return Parts.grouped(places, len(classes))


def classes_of(labels: ArrayLike) -> list[Index]:
    """The samples of each class that occurs, as arrays."""
    return [members.numpy() for members in by_class(labels)]
