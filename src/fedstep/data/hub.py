"""Data sets of the Hugging Face hub; the one module that needs `datasets`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.seeds import key
from fedstep.data.leaf import FEMNIST_CLASSES, PIXELS, WINDOW, Users, encode
from fedstep.data.partition.base import classes_of
from fedstep.data.parts import Index, Parts

COLUMNS = (
    ("img", "label"),
    ("img", "fine_label"),
    ("image", "label"),
    ("image", "character"),
    ("x", "y"),
)


def cifar10(train: bool = True) -> tuple[Tensor, Tensor]:
    """`uoft-cs/cifar10` as data.cifar has it: uint8 `[n, 3, 32, 32]` and labels."""
    return fields(_load("uoft-cs/cifar10", "train" if train else "test"), "img", "label")


def cifar100(train: bool = True, coarse: bool = False) -> tuple[Tensor, Tensor]:
    """`uoft-cs/cifar100` as data.cifar has it, with fine or coarse labels."""
    rows = _load("uoft-cs/cifar100", "train" if train else "test")
    return fields(rows, "img", "coarse_label" if coarse else "fine_label")


def mnist(train: bool = True) -> tuple[Tensor, Tensor]:
    """`ylecun/mnist` as data.idx has it: float32 `[n, 784]`, 1.0 = ink."""
    return fields(_load("ylecun/mnist", "train" if train else "test"), "image", "label")


def femnist(train: bool = True, invert: bool = False) -> Users:
    """`flwrlabs/femnist` by writer, as data.leaf has it (1.0 = background unless inverted).

    The hub has one split. Of each writer's n samples, in an order that depends on his id alone, the first int(0.9 n) are
    train, as in LEAF; writers without a train and a test sample are left out of both.
    """
    rows = _load("flwrlabs/femnist", "train")
    names, chosen = _chosen(rows["writer_id"], lambda own, name: _sampled(own, name, train))
    inputs, targets = fields(rows.select(np.concatenate(chosen)), "image", "character")
    if inputs.shape[1:] != (PIXELS,) or targets.max() >= FEMNIST_CLASSES:
        raise InputError(
            "flwrlabs/femnist: images of 28x28 with labels 0..61 were expected, the data set has changed"
        )
    return Users(
        names,
        1 - inputs if invert else inputs,
        targets,
        Parts.consecutive([len(c) for c in chosen]),
    )


def shakespeare(train: bool = True) -> Users:
    """`flwrlabs/shakespeare` by role, as data.leaf has it, split by LEAF's temporal rule.

    The hub has one split, windows in order. Of a role's n windows the first k = int(0.8 n) are train and those from
    k + 79 on are test; roles without both are left out of both.
    """
    rows = _load("flwrlabs/shakespeare", "train")
    names, chosen = _chosen(rows["character_id"], lambda own, name: _temporal(own, train))
    inputs, targets = fields(rows.select(np.concatenate(chosen)), "x", "y")
    return Users(names, inputs, targets, Parts.consecutive([len(c) for c in chosen]))


def from_flwr_datasets(
    fds: Any, split: str = "train", columns: tuple[str, str] | None = None
) -> Users:
    """The partitions of a `flwr_datasets.FederatedDataset`, in order, as users "0", "1", ...

    `columns` names inputs and targets; without it the pairs in `COLUMNS` are tried. Set FLWR_TELEMETRY_ENABLED=0 to keep
    flwr_datasets from reporting each partition it loads.
    """
    first = fds.load_partition(
        0, split
    )  # some partitioners know their number only after the data set is loaded
    count = fds.partitioners[split].num_partitions
    pair = columns or _columns(first.column_names)
    each = [fields(first if i == 0 else fds.load_partition(i, split), *pair) for i in range(count)]
    pooled = [torch.cat(column) for column in zip(*each, strict=True)]
    return Users(
        tuple(map(str, range(count))),
        pooled[0],
        pooled[1],
        Parts.consecutive([len(y) for _, y in each]),
    )


def fields(rows: Any, inputs: str, targets: str) -> tuple[Tensor, Tensor]:
    """Two columns as arrays in the shapes that the file readers give.

    Grey images become float32 `[n, h w]` in [0, 1], colour images uint8 `[n, 3, h, w]`, strings the symbols of leaf.encode,
    vectors of numbers float32; targets become int64.
    """
    missing = [name for name in (inputs, targets) if name not in rows.column_names]
    if missing:
        raise InputError(
            f"there is no column {missing[0]!r}: the columns are {', '.join(rows.column_names)}"
        )
    xs = [
        x if isinstance(x, str) else np.asarray(x) for x in rows[inputs]
    ]  # one image open at a time
    ys = list(rows[targets])
    if not xs:
        raise InputError(f"a partition has no rows in {inputs!r}: leave it out")
    if isinstance(xs[0], str):
        return _strings(xs, WINDOW).view(-1, WINDOW), _strings(ys, 1).long()
    try:
        values, labels = np.stack(xs), np.asarray(ys)
    except ValueError as error:
        raise InputError(f"the rows of {inputs!r} differ in shape: {error}") from None
    if (
        values.dtype.kind not in "fiu"
        or labels.dtype.kind not in "iu"
        or labels.ndim != 1
        or labels.min() < 0
    ):
        raise InputError(
            f"{inputs!r} must hold images, numbers or strings and {targets!r} whole numbers from 0"
        )
    return _arranged(values), torch.from_numpy(labels.astype(np.int64))


def _arranged(values: np.ndarray) -> Tensor:
    if values.dtype != np.uint8:
        return torch.from_numpy(values.astype(np.float32))
    if values.ndim == 4:
        return torch.from_numpy(np.ascontiguousarray(values.transpose(0, 3, 1, 2)))
    return torch.from_numpy(values.reshape(len(values), -1).astype(np.float32)).div_(255)


def _strings(texts: list[Any], length: int) -> Tensor:
    wrong = [text for text in texts if not isinstance(text, str) or len(text) != length]
    if wrong:
        raise InputError(f"{wrong[0]!r} is not a string of length {length}")
    return encode("".join(texts))


def _columns(names: Sequence[str]) -> tuple[str, str]:
    pair = next((pair for pair in COLUMNS if set(pair) <= set(names)), None)
    if pair is None:
        raise InputError(f"the columns are {', '.join(names)}: give columns=(inputs, targets)")
    return pair


def _chosen(
    ids: Sequence[str], choose: Callable[[Index, str], Index]
) -> tuple[tuple[str, ...], list[Index]]:
    """Names and chosen rows of the natural users that have any."""
    column = np.asarray(list(ids))
    each = [(str(column[own[0]]), own) for own in classes_of(column)]
    chosen = [(name, rows) for name, own in each if len(rows := choose(own, name))]
    if not chosen:
        raise InputError("no user has both a train and a test sample")
    return tuple(name for name, _ in chosen), [rows for _, rows in chosen]


def _sampled(own: Index, name: str, train: bool) -> Index:
    shuffled, k = np.random.default_rng(key("femnist", name)).permutation(own), int(0.9 * len(own))
    return _if_both(shuffled[:k], shuffled[k:], train)


def _temporal(own: Index, train: bool) -> Index:
    k = int(0.8 * len(own))
    return _if_both(own[:k], own[k + WINDOW - 1 :], train)


def _if_both(first: Index, second: Index, train: bool) -> Index:
    """One of the two, or nothing where either is empty."""
    if not len(first) or not len(second):
        return first[:0]
    return first if train else second


def _load(name: str, split: str) -> Any:
    try:
        hub = import_module("datasets")
    except ModuleNotFoundError:
        raise InputError("the package `datasets` is missing: pip install 'fedstep[hub]'") from None
    try:
        return hub.load_dataset(name, split=split)
    except (
        OSError,
        RuntimeError,
        ValueError,
    ) as error:  # no network, or offline mode and nothing cached
        raise InputError(
            f"{name} cannot be fetched from the hub ({error}): connect once, or use the file readers"
        ) from None
