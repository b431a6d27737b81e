"""MNIST and its relatives: the IDX format."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.data.files import find, read

EMNIST_CLASSES = {
    "balanced": 47,
    "byclass": 62,
    "bymerge": 47,
    "digits": 10,
    "letters": 26,
    "mnist": 10,
}


def read_idx(path: Path, dims: int) -> Tensor:
    """The uint8 array in an IDX file: bytes 0 0 8 dims, the big-endian int32 lengths, the values."""
    content = read(path)
    magic = bytes((0, 0, 8, dims))
    if content[:4] != magic:
        raise InputError(
            f"{path} begins with {content[:4].hex(' ') or 'nothing'}, not {magic.hex(' ')}: "
            f"it is not an IDX file of bytes with {dims} dimensions"
        )
    start = 4 + 4 * dims
    shape = [int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4)]
    if len(content) < start or len(content) - start != prod(shape):
        raise InputError(
            f"{path} says {shape} but holds {max(len(content) - start, 0)} values: fetch it again"
        )
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy())


def mnist(directory: str | Path, train: bool = True) -> tuple[Tensor, Tensor]:
    """MNIST (also Fashion-MNIST, KMNIST): float32 pixels `[n, 784]` in [0, 1], 1.0 = ink, and int64 labels 0..9."""
    part = "train" if train else "t10k"
    return _pair(directory, f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte", classes=10)


def emnist(
    directory: str | Path, split: str = "balanced", train: bool = True
) -> tuple[Tensor, Tensor]:
    """EMNIST (Cohen et al., 2017) as `mnist`; the stored images are transposed and come out upright here.

    The labels of `letters` are 1..26 in the files and 0..25 here.
    """
    if split not in EMNIST_CLASSES:
        raise InputError(f"emnist(split={split!r}): must be one of {', '.join(EMNIST_CLASSES)}")
    stem = f"emnist-{split}-{'train' if train else 'test'}"
    first = 1 if split == "letters" else 0
    names = f"{stem}-images-idx3-ubyte", f"{stem}-labels-idx1-ubyte"
    inputs, targets = _pair(directory, *names, EMNIST_CLASSES[split], first)
    return inputs.view(-1, 28, 28).transpose(1, 2).reshape(-1, 784), targets


def _pair(
    directory: str | Path, images: str, labels: str, classes: int, first: int = 0
) -> tuple[Tensor, Tensor]:
    paths = find(directory, images), find(directory, labels)
    inputs, targets = read_idx(paths[0], 3), read_idx(paths[1], 1).long() - first
    if inputs.shape[1:] != (28, 28):
        raise InputError(f"{paths[0]}: the images are {tuple(inputs.shape[1:])}, not (28, 28)")
    if len(inputs) != len(targets) or len(targets) == 0:
        raise InputError(
            f"{directory}: {len(inputs)} images in {images} but {len(targets)} labels in {labels}"
        )
    wrong = (targets < 0) | (targets >= classes)
    if wrong.any():
        at = int(wrong.nonzero()[0])
        last = classes - 1 + first
        raise InputError(
            f"{paths[1]}: label {int(targets[at]) + first} of sample {at} is outside {first}..{last}"
        )
    return inputs.flatten(1).float().div_(255), targets
