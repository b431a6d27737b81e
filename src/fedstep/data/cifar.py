"""CIFAR-10 and CIFAR-100: the binary version and the Python version."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedstep.core.errors import InputError
from fedstep.data.files import present, read

PIXELS = 3 * 32 * 32
MEAN = (0.491, 0.482, 0.447)
STD = (0.247, 0.243, 0.262)


def cifar10(directory: str | Path, train: bool = True) -> tuple[Tensor, Tensor]:
    """CIFAR-10: uint8 images `[n, 3, 32, 32]` and int64 labels 0..9, in upstream order.

    Reads `data_batch_1.bin`, `_2.bin`, ... as far as there are any (upstream has five), or the same of the Python version
    (`data_batch_1`, ...). The number of records is taken from the size of each file.
    """
    names = [f"data_batch_{i}" for i in range(1, 6)] if train else ["test_batch"]
    there = [_either(directory, name) is not None for name in names]
    if not any(there) or there != sorted(there, reverse=True):
        missing = names[there.index(False)]
        raise InputError(
            f"{missing}.bin is not in {directory}: put it there (or {missing}, the Python version)"
        )
    each = [_read(directory, name, ("labels",), (10,), 0) for name in names[: sum(there)]]
    return torch.cat([x for x, _ in each]), torch.cat([y for _, y in each])


def cifar100(
    directory: str | Path, train: bool = True, coarse: bool = False
) -> tuple[Tensor, Tensor]:
    """CIFAR-100: uint8 images `[n, 3, 32, 32]` and int64 fine labels 0..99, or coarse ones 0..19."""
    name = "train" if train else "test"
    if _either(directory, name) is None:
        raise InputError(
            f"{name}.bin is not in {directory}: put it there (or {name}, the Python version)"
        )
    return _read(directory, name, ("coarse_labels", "fine_labels"), (20, 100), 0 if coarse else 1)


def normalise(images: Tensor) -> Tensor:
    """Floats with about mean 0 and deviation 1 per channel: (x / 255 - MEAN) / STD, for images `[..., 3, 32, 32]`."""
    mean, std = (torch.tensor(v, device=images.device).view(3, 1, 1) for v in (MEAN, STD))
    return (images / 255 - mean) / std


def augment(images: Tensor, generator: torch.Generator, padding: int = 4) -> Tensor:
    """Each image `[n, c, h, w]` cropped at a place of its own from its padded form, and mirrored with probability 1/2.

    Padding is 0: black before `normalise`, the mean colour after it (where the authors pad). They draw one crop and one
    mirroring for a whole batch; here each image has its own.
    """
    n, _, h, w = images.shape
    draws = torch.rand(
        n, 3, 1, generator=generator
    )  # a row an image: padding a batch must not change those before it
    top, left = (draws[:, :2] * (2 * padding + 1)).long().unbind(1)
    mirrored = draws[:, 2] < 0.5
    rows = top + torch.arange(h)
    columns = left + torch.where(mirrored, torch.arange(w).flip(0), torch.arange(w))
    padded = functional.pad(images, (padding,) * 4)
    # indices on both sides of the channel axis put that axis last
    picked = padded[torch.arange(n)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return picked.movedim(-1, 1).contiguous()


def _either(directory: str | Path, name: str) -> Path | None:
    return present(directory, f"{name}.bin") or present(directory, name)


def _read(
    directory: str | Path, name: str, keys: tuple[str, ...], classes: tuple[int, ...], wanted: int
) -> tuple[Tensor, Tensor]:
    path = present(directory, f"{name}.bin")
    if path is not None:
        images, labels = _binary(path, len(keys))
    else:
        path = Path(_either(directory, name) or name)
        images, labels = _python(path, keys)
    for key, column, count in zip(keys, labels, classes, strict=True):
        if column.min() < 0 or column.max() >= count:
            at = int(np.argmax((column < 0) | (column >= count)))
            raise InputError(f"{path}, record {at}: {key} {column[at]} is outside 0..{count - 1}")
    return torch.from_numpy(images.reshape(-1, 3, 32, 32)), torch.from_numpy(labels[wanted])


def _binary(path: Path, n_labels: int) -> tuple[np.ndarray, list[np.ndarray]]:
    content, record = read(path), n_labels + PIXELS
    if not content or len(content) % record:
        raise InputError(
            f"{path} has {len(content)} bytes, not a multiple of {record}: fetch it again"
        )
    table = np.frombuffer(content, np.uint8).reshape(-1, record)
    return table[:, n_labels:].copy(), [table[:, i].astype(np.int64) for i in range(n_labels)]


def _python(path: Path, keys: tuple[str, ...]) -> tuple[np.ndarray, list[np.ndarray]]:
    batch = _plain_pickle(path)
    images, columns = batch.get("data"), [batch.get(key) for key in keys]
    if (
        not isinstance(images, np.ndarray)
        or images.ndim != 2
        or images.shape[1] != PIXELS
        or not len(images)
    ):
        raise InputError(
            f"{path} has no `data` of bytes with {PIXELS} columns: it is not a CIFAR batch"
        )
    for key, column in zip(keys, columns, strict=True):
        if (
            not isinstance(column, list)
            or len(column) != len(images)
            or {type(v) for v in column} != {int}
        ):
            raise InputError(f"{path}: `{key}` is not a list of {len(images)} whole numbers")
    return images, [np.asarray(column, np.int64) for column in columns]


# Stand-ins for the few things those files name. All are classes with a __setstate__ of their own, so that a pickle's BUILD can
# neither reach numpy nor change them.


class _Latin1(bytes):
    def __new__(cls, text: str, encoding: str) -> bytes:  # type: ignore[misc]
        return text.encode("latin1")

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("bytes have no state")


class _Kind:
    name = ""

    def __init__(self, name: str | bytes, *_: object) -> None:
        self.name = name.decode("ascii") if isinstance(name, bytes) else name

    def __setstate__(self, state: object) -> None:
        """Byte order and the like: of no meaning to single bytes, and anything else is refused later."""


class _Array:
    value: np.ndarray | None = None

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: tuple[int, tuple[int, ...], _Kind, bool, bytes]) -> None:
        _, shape, kind, by_column, content = state
        if not isinstance(kind, _Kind) or kind.name not in ("u1", "uint8"):
            raise pickle.UnpicklingError("the array is not one of bytes")
        stored = np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_column else "C")
        self.value = np.array(stored, order="C")


_ALLOWED: dict[tuple[str, str], type] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _Latin1,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _ALLOWED[module, name]


def _plain_pickle(path: Path) -> dict[str, Any]:
    """A pickled dict of numbers, strings, lists and arrays of bytes; everything else is refused, and nothing is imported."""
    content = read(path)
    try:
        batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a hostile or damaged pickle can fail in any way
        raise InputError(
            f"{path} is not a plain pickle of a CIFAR batch ({error}): fetch it again"
        ) from None
    if not isinstance(batch, dict):
        raise InputError(
            f"{path} holds a {type(batch).__name__}, not a dict: it is not a CIFAR batch"
        )
    named = {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in batch.items()}
    return {k: v.value if isinstance(v, _Array) else v for k, v in named.items()}
