"""CIFAR-10 and CIFAR-100: the binary version and the Python version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedstep.core.errors import InputError
from fedstep.data.files import present, read_bytes
from fedstep.data.pickles import plain_pickle

PIXELS = 3 * 32 * 32
MEAN = (0.491, 0.482, 0.447)
STD = (0.247, 0.243, 0.262)


@dataclass(frozen=True)
class _LabelColumn:
    """A label that every record has: its key in the Python version, and how many values it takes.

    The binary version has a byte for each, in the order in which they are given.
    """

    key: str
    classes: int


TEN_LABELS = (_LabelColumn("labels", 10),)
HUNDRED_LABELS = (
    _LabelColumn("coarse_labels", 20),
    _LabelColumn("fine_labels", 100),
)


@dataclass(frozen=True)
class _Records:
    """Images, a row of bytes each, and one array for each label that they have."""

    images: np.ndarray
    labels: list[np.ndarray]


def cifar10(
    directory: str | Path,
    train: bool = True,
) -> tuple[Tensor, Tensor]:
    """CIFAR-10: uint8 images `[n, 3, 32, 32]` and int64 labels 0..9, in upstream order.

    Reads `data_batch_1.bin`, `_2.bin`, ... as far as there are any (upstream has five), or the same
    of the Python version (`data_batch_1`, ...). The number of records is taken from the size of
    each file.
    """
    names = ["test_batch"]
    if train:
        names = [f"data_batch_{number}" for number in range(1, 6)]
    there = [name for name in names if _either_version(directory, name) is not None]
    # the first batches and no gap: otherwise samples of the middle would be missing unseen
    if not there or there != names[: len(there)]:
        missing = next(name for name in names if name not in there)
        raise InputError(_absent(directory, missing))
    # joined once at the end: adding batch to batch would copy the first one five times
    images = []
    labels = []
    for name in there:
        records = _read(directory, name, TEN_LABELS)
        images.append(_as_images(records.images))
        labels.append(torch.from_numpy(records.labels[0]))
    return torch.cat(images), torch.cat(labels)


def cifar100(
    directory: str | Path,
    train: bool = True,
    coarse: bool = False,
) -> tuple[Tensor, Tensor]:
    """CIFAR-100: uint8 images `[n, 3, 32, 32]` and int64 labels.

    They are fine labels 0..99, or coarse ones 0..19.
    """
    name = "test"
    if train:
        name = "train"
    if _either_version(directory, name) is None:
        raise InputError(_absent(directory, name))
    records = _read(directory, name, HUNDRED_LABELS)
    # the columns stand as in the binary file, the coarse label first
    chosen = 1
    if coarse:
        chosen = 0
    return _as_images(records.images), torch.from_numpy(records.labels[chosen])


def normalise(images: Tensor) -> Tensor:
    """Floats with about mean 0 and deviation 1 per channel, for images `[..., 3, 32, 32]`.

    (x / 255 - MEAN) / STD
    """
    mean = torch.tensor(MEAN, device=images.device).view(
        3,
        1,
        1,
    )
    std = torch.tensor(STD, device=images.device).view(
        3,
        1,
        1,
    )
    return (images / 255 - mean) / std


def augment(
    images: Tensor,
    generator: torch.Generator,
    padding: int = 4,
) -> Tensor:
    """Each image `[n, c, h, w]` cropped from its padded form, and mirrored with probability 1/2.

    Padding is 0: black before `normalise`, the mean colour after it (where the authors pad). They
    draw one crop and one mirroring for a whole batch; here each image has its own.
    """
    n, _, height, width = images.shape
    # a row an image: padding a batch must not change the draws of those before it
    draws = torch.rand(
        n,
        3,
        1,
        generator=generator,
    )
    corners = (draws[:, :2] * (2 * padding + 1)).long()
    top, left = corners.unbind(1)
    # the third draw is there whether it is used or not: crops do not depend on mirroring
    mirrored = draws[:, 2] < 0.5
    rows = top + torch.arange(height)
    forward = torch.arange(width)
    columns = left + torch.where(
        mirrored,
        forward.flip(0),
        forward,
    )
    padded = functional.pad(images, (padding,) * 4)
    # indices on both sides of the channel axis put that axis last
    image = torch.arange(n)[:, None, None]
    picked = padded[image, :, rows[:, :, None], columns[:, None, :]]
    return picked.movedim(-1, 1).contiguous()


@dataclass(frozen=True)
class Images:
    """Bytes to normalised floats; in training a random crop and flip of every image."""

    augment: bool = True

    def __call__(
        self,
        fields: tuple[Tensor, ...],
        generator: torch.Generator | None,
    ) -> tuple[Tensor, ...]:
        images, *rest = fields
        # evaluation brings no generator: there nothing may be random
        if self.augment and generator is not None:
            images = augment(images, generator)
        return normalise(images), *rest


def _as_images(rows: np.ndarray) -> Tensor:
    return torch.from_numpy(
        rows.reshape(
            -1,
            3,
            32,
            32,
        )
    )


def _either_version(
    directory: str | Path,
    name: str,
) -> Path | None:
    # the binary version first: it is read without looking at any code in the file
    return present(directory, f"{name}.bin") or present(directory, name)


def _absent(
    directory: str | Path,
    name: str,
) -> str:
    return f"{name}.bin is not in {directory}: put it there (or {name}, the Python version)"


def _read(
    directory: str | Path,
    name: str,
    columns: tuple[_LabelColumn, ...],
) -> _Records:
    path = present(directory, f"{name}.bin")
    if path is not None:
        records = _binary(path, columns)
    else:
        path = Path(_either_version(directory, name) or name)
        records = _python(path, columns)
    for column, labels in zip(columns, records.labels, strict=True):
        wrong = (labels < 0) | (labels >= column.classes)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(
                f"{path}, record {at}: {column.key} {labels[at]} is outside 0..{column.classes - 1}"
            )
    return records


def _binary(
    path: Path,
    columns: tuple[_LabelColumn, ...],
) -> _Records:
    content = read_bytes(path)
    n_labels = len(columns)
    length = n_labels + PIXELS
    # the only check that a file without a header allows
    if not content or len(content) % length:
        raise InputError(
            f"{path} has {len(content)} bytes, not a multiple of {length}: fetch it again"
        )
    table = np.frombuffer(content, np.uint8).reshape(-1, length)
    labels = [table[:, number].astype(np.int64) for number in range(n_labels)]
    return _Records(table[:, n_labels:].copy(), labels)


def _python(
    path: Path,
    columns: tuple[_LabelColumn, ...],
) -> _Records:
    batch = _python_batch(path)
    images = batch.get("data")
    if not isinstance(images, np.ndarray) or not _is_table(images):
        raise InputError(
            f"{path} has no `data` of bytes with {PIXELS} columns: it is not a CIFAR batch"
        )
    labels = [
        _whole_numbers(
            path,
            batch,
            column.key,
            len(images),
        )
        for column in columns
    ]
    return _Records(images, labels)


def _is_table(images: np.ndarray) -> bool:
    return images.ndim == 2 and images.shape[1] == PIXELS and len(images) > 0


def _whole_numbers(
    path: Path,
    batch: dict[str, Any],
    key: str,
    length: int,
) -> np.ndarray:
    values = batch.get(key)
    if not isinstance(values, list) or len(values) != length or not _are_whole(values):
        raise InputError(f"{path}: `{key}` is not a list of {length} whole numbers")
    try:
        return np.asarray(values, np.int64)
    except OverflowError:
        raise InputError(f"{path}: a number of `{key}` has more than 64 bits") from None


def _are_whole(values: list[Any]) -> bool:
    # `type`, not isinstance: True is an int and no label
    return all(type(value) is int for value in values)


def _python_batch(path: Path) -> dict[str, Any]:
    """The entries of a batch, by names that are text in every version of Python."""
    content = read_bytes(path)
    try:
        batch = plain_pickle(content)
    except Exception as error:  # a damaged or hostile file can fail in any way
        reason = str(error) or type(error).__name__
        raise InputError(
            f"{path} is not a plain pickle of a CIFAR batch ({reason}): fetch it again"
        ) from None
    if not isinstance(batch, dict):
        kind = type(batch).__name__
        raise InputError(f"{path} holds a {kind}, not a dict: it is not a CIFAR batch")
    named = {}
    for key, value in batch.items():
        name = key
        if isinstance(key, bytes):
            name = key.decode("latin1")
        named[name] = value
    return named
