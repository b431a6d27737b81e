"""Data sets of the Hugging Face hub; the one module that needs `datasets`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.seeds import key
from fedstep.data.leaf import FEMNIST_CLASSES, PIXELS, WINDOW, check_texts, encode
from fedstep.data.partition.base import classes_of
from fedstep.data.parts import Index, Parts
from fedstep.data.users import Users

# pairs of inputs and targets as data sets of the hub are used to name them
COLUMNS = (
    ("img", "label"),
    ("img", "fine_label"),
    ("image", "label"),
    ("image", "character"),
    ("x", "y"),
)


def hub_columns(
    repository: str,
    train: bool,
    inputs: str,
    targets: str,
) -> tuple[Tensor, Tensor]:
    """Two columns of a data set of the hub that has a train and a test split; see `fields`."""
    split = "test"
    if train:
        split = "train"
    return fields(_load(repository, split), inputs, targets)


def hub_writers(train: bool = True) -> Users:
    """`flwrlabs/femnist` by writer, as data.leaf has it (1.0 = background).

    The hub has one split. Of each writer's n samples, in an order that depends on his id alone, the
    first int(0.9 n) are train, as in LEAF; writers without a train and a test sample are left out
    of both.
    """

    def choose(
        own: Index,
        name: str,
    ) -> Index:
        shuffled = np.random.default_rng(key("femnist", name)).permutation(own)
        first_test = int(0.9 * len(own))
        return _if_both(
            shuffled[:first_test],
            shuffled[first_test:],
            train,
        )

    # all samples are in its train split, whatever it is called
    rows = _load("flwrlabs/femnist", "train")
    writers = _chosen(rows["writer_id"], choose)
    inputs, targets = fields(
        rows.select(writers.all_rows),
        "image",
        "character",
    )
    if inputs.shape[1:] != (PIXELS,) or targets.max() >= FEMNIST_CLASSES:
        raise InputError(
            "flwrlabs/femnist: images of 28x28 with labels 0..61 were expected, "
            "the data set has changed"
        )
    return Users(writers.names, inputs, targets, writers.parts)


def hub_roles(train: bool = True) -> Users:
    """`flwrlabs/shakespeare` by role, as data.leaf has it, split by LEAF's temporal rule.

    The hub has one split, windows in order. Of a role's n windows the first k = int(0.8 n) are
    train and those from k + 79 on are test; roles without both are left out of both.
    """

    def choose(
        own: Index,
        name: str,
    ) -> Index:
        # windows overlap by all but one character: 79 of them lie in both parts and are dropped
        k = int(0.8 * len(own))
        return _if_both(
            own[:k],
            own[k + WINDOW - 1 :],
            train,
        )

    # the one split that there is
    rows = _load("flwrlabs/shakespeare", "train")
    roles = _chosen(rows["character_id"], choose)
    inputs, targets = fields(
        rows.select(roles.all_rows),
        "x",
        "y",
    )
    return Users(roles.names, inputs, targets, roles.parts)


def from_flwr_datasets(
    fds: Any,
    split: str = "train",
    columns: tuple[str, str] | None = None,
) -> Users:
    """The partitions of a `flwr_datasets.FederatedDataset`, in order, as users "0", "1", ...

    `columns` names inputs and targets; without it the pairs in `COLUMNS` are tried. Set
    FLWR_TELEMETRY_ENABLED=0 to keep flwr_datasets from reporting each partition it loads.
    """
    # some partitioners know their number only after the data set is loaded
    partition = fds.load_partition(0, split)
    count = fds.partitioners[split].num_partitions
    inputs_name, targets_name = columns or _known_pair(partition.column_names)
    inputs = []
    targets = []
    for number in range(count):
        if number > 0:
            partition = fds.load_partition(number, split)
        own_inputs, own_targets = fields(partition, inputs_name, targets_name)
        # kept apart until all are there: to join them one by one would copy all of them each time
        inputs.append(own_inputs)
        targets.append(own_targets)
    return Users(
        names=tuple(str(number) for number in range(count)),
        inputs=torch.cat(inputs),
        targets=torch.cat(targets),
        parts=Parts.consecutive([len(own) for own in targets]),
    )


def fields(
    rows: Any,
    inputs: str,
    targets: str,
) -> tuple[Tensor, Tensor]:
    """Two columns as arrays in the shapes that the file readers give.

    Grey images become float32 `[n, h w]` in [0, 1], colour images uint8 `[n, 3, h, w]`, strings the
    symbols of leaf.encode, vectors of numbers float32; targets become int64.
    """
    for name in (inputs, targets):
        if name not in rows.column_names:
            there = ", ".join(rows.column_names)
            raise InputError(f"there is no column {name!r}: the columns are {there}")
    # images are opened as they are asked for: one at a time becomes an array
    xs = [_value(x) for x in rows[inputs]]
    ys = list(rows[targets])
    if not xs:
        raise InputError(f"a partition has no rows in {inputs!r}: leave it out")
    # texts are windows of symbols, whatever the repository calls its columns
    if isinstance(xs[0], str):
        return _symbols(xs, WINDOW).view(-1, WINDOW), _symbols(ys, 1).long()
    try:
        values = np.stack(xs)
        labels = np.asarray(ys)
    except ValueError as error:
        raise InputError(f"the rows of {inputs!r} differ in shape: {error}") from None
    whole = labels.dtype.kind in "iu" and labels.ndim == 1
    if values.dtype.kind not in "fiu" or not whole or labels.min() < 0:
        raise InputError(
            f"{inputs!r} must hold images, numbers or strings and {targets!r} whole numbers from 0"
        )
    return _arranged(values), torch.from_numpy(labels.astype(np.int64))


def _value(x: Any) -> Any:
    if isinstance(x, str):
        return x
    return np.asarray(x)


def _arranged(values: np.ndarray) -> Tensor:
    # numbers that are no pictures keep their scale
    if values.dtype != np.uint8:
        return torch.from_numpy(values.astype(np.float32))
    if values.ndim == 4:
        # colours last in pictures, first in torch
        return torch.from_numpy(
            np.ascontiguousarray(
                values.transpose(
                    0,
                    3,
                    1,
                    2,
                )
            )
        )
    grey = values.reshape(len(values), -1).astype(np.float32)
    return torch.from_numpy(grey).div_(255)


def _symbols(
    texts: list[Any],
    length: int,
) -> Tensor:
    try:
        check_texts(texts, length)
    except ValueError as error:
        raise InputError(str(error)) from None
    return encode("".join(texts))


def _known_pair(names: Sequence[str]) -> tuple[str, str]:
    # the first pair that is there: CIFAR-100 has two kinds of labels and is found by the fine one
    for pair in COLUMNS:
        if set(pair) <= set(names):
            return pair
    raise InputError(f"the columns are {', '.join(names)}: give columns=(inputs, targets)")


@dataclass(frozen=True)
class _ChosenUsers:
    """Users and the rows of each that belong to a split."""

    names: tuple[str, ...]
    rows: list[Index]

    @property
    def all_rows(self) -> Index:
        return np.concatenate(self.rows)

    @property
    def parts(self) -> Parts:
        """Where the users are once all rows stand one after the other."""
        return Parts.consecutive([len(own) for own in self.rows])


def _chosen(
    ids: Sequence[str],
    choose: Callable[[Index, str], Index],
) -> _ChosenUsers:
    """The natural users that have any rows of this split."""
    # a list first: a column of the hub is read through its own iterator
    column = np.asarray(list(ids))
    names = []
    chosen = []
    for own in classes_of(column):
        name = str(column[own[0]])
        rows = choose(own, name)
        if len(rows) > 0:
            names.append(name)
            chosen.append(rows)
    if not names:
        raise InputError("no user has both a train and a test sample")
    return _ChosenUsers(tuple(names), chosen)


def _if_both(
    first: Index,
    second: Index,
    train: bool,
) -> Index:
    """One of the two, or nothing where either is empty."""
    # who has not both is left out of both: the two splits hold the same users
    if len(first) == 0 or len(second) == 0:
        return first[:0]
    if train:
        return first
    return second


def _load(
    repository: str,
    split: str,
) -> Any:
    try:
        # here and not above: the package is an extra, and slow to import
        hub = import_module("datasets")
    except ModuleNotFoundError:
        raise InputError("the package `datasets` is missing: pip install 'fedstep[hub]'") from None
    try:
        return hub.load_dataset(repository, split=split)
    except (OSError, RuntimeError, ValueError) as error:
        # no network, or offline mode and nothing cached
        raise InputError(
            f"{repository} cannot be fetched from the hub ({error}): "
            "connect once, or use the file readers"
        ) from None
