"""MNIST and its relatives: the IDX format."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.data.files import find, read_bytes

EMNIST_CLASSES = {
    "balanced": 47,
    "byclass": 62,
    "bymerge": 47,
    "digits": 10,
    "letters": 26,
    "mnist": 10,
}
SIDE = 28  # pixels of an image, in both directions


def read_idx(
    path: Path,
    dims: int,
) -> Tensor:
    """The uint8 array in an IDX file.

    Its bytes are 0 0 8 dims, the lengths as big-endian int32, and the values.
    """
    content = read_bytes(path)
    magic = bytes((0, 0, 8, dims))
    # 8 stands for unsigned bytes: no data set in use has another type
    if content[:4] != magic:
        begin = content[:4].hex(" ") or "nothing"
        raise InputError(
            f"{path} begins with {begin}, not {magic.hex(' ')}: "
            f"it is not an IDX file of bytes with {dims} dimensions"
        )
    start = 4 + 4 * dims
    shape = []
    for place in range(4, start, 4):
        shape.append(int.from_bytes(content[place : place + 4], "big"))
    # a header that was cut has fewer bytes than `start`
    held = max(len(content) - start, 0)
    if held == 0 or held != prod(shape):
        raise InputError(f"{path} says {shape} but holds {held} values: fetch it again")
    values = np.frombuffer(
        content,
        np.uint8,
        offset=start,
    )
    # a copy, because what numpy reads from bytes cannot be written to and torch warns of it
    return torch.from_numpy(values.reshape(shape).copy())


def mnist(
    directory: str | Path,
    train: bool = True,
) -> tuple[Tensor, Tensor]:
    """MNIST (also Fashion-MNIST, KMNIST): float32 pixels `[n, 784]` and int64 labels 0..9.

    Pixels lie in [0, 1], and 1.0 is ink.
    """
    part = "t10k"
    if train:
        part = "train"
    return _images_and_labels(directory, part, classes=10)


def emnist(
    directory: str | Path,
    split: str = "balanced",
    train: bool = True,
) -> tuple[Tensor, Tensor]:
    """EMNIST (Cohen et al., 2017) as `mnist`.

    The stored images are transposed and come out upright here. The labels of `letters` are 1..26 in
    the files and 0..25 here.
    """
    if split not in EMNIST_CLASSES:
        known = ", ".join(EMNIST_CLASSES)
        raise InputError(f"emnist(split={split!r}): must be one of {known}")
    part = "test"
    if train:
        part = "train"
    first = 0
    # the only split whose files count from 1
    if split == "letters":
        first = 1
    inputs, targets = _images_and_labels(
        directory,
        f"emnist-{split}-{part}",
        EMNIST_CLASSES[split],
        first,
    )
    upright = inputs.view(
        -1,
        SIDE,
        SIDE,
    ).transpose(1, 2)
    return upright.reshape(-1, SIDE * SIDE), targets


def _images_and_labels(
    directory: str | Path,
    stem: str,
    classes: int,
    first: int = 0,
) -> tuple[Tensor, Tensor]:
    image_file = find(directory, f"{stem}-images-idx3-ubyte")
    label_file = find(directory, f"{stem}-labels-idx1-ubyte")
    images = read_idx(image_file, 3)
    labels = read_idx(label_file, 1).long()
    side = tuple(images.shape[1:])
    if side != (SIDE, SIDE):
        raise InputError(f"{image_file}: the images are {side}, not ({SIDE}, {SIDE})")
    # two files of two downloads: either may be of another version
    if len(images) != len(labels):
        raise InputError(
            f"{directory}: {len(images)} images in {image_file.name} "
            f"but {len(labels)} labels in {label_file.name}"
        )
    # checked as the file numbers them, so that the message shows what is in the file
    last = first + classes - 1
    wrong = (labels < first) | (labels > last)
    if wrong.any():
        at = int(wrong.nonzero()[0])
        label = int(labels[at])
        raise InputError(f"{label_file}: label {label} of sample {at} is outside {first}..{last}")
    pixels = images.flatten(1).float()
    return pixels.div_(255), labels - first
