"""Parsed data sets kept as tensors, so that a second start is quick.

Every file holds a checksum of its tensors, and none is believed without it.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from fedstep.core.errors import InputError

if TYPE_CHECKING:
    # safetensors.torch is imported where tensors are touched: to ask where the cache is needs no
    # torch
    from torch import Tensor

CHECKSUM = "sha256"  # the entry of a file's metadata


class DamagedCache(InputError):
    """A file of the cache that is not as it was written."""


def home() -> Path:
    """`FEDSTEP_CACHE`, or a folder in the user's cache directory."""
    # first, so that a test or a study can have a cache of its own
    given = os.environ.get("FEDSTEP_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "fedstep"
    return Path.home() / ".cache" / "fedstep"


def place(name: str) -> Path:
    """The file of the tensors under this name."""
    return home() / f"{name}.safetensors"


def content_key(
    folder: Path,
    files: Iterable[Path],
) -> str:
    """A key that changes with the names and the content of files.

    Not with their times or places: a copy of the data is the same data, and other data of the same
    names, sizes and times are not. A gigabyte takes about a second.
    """
    key = hashlib.sha256()
    # sorted: the order in which a disk lists its files is no content
    for path in sorted(files):
        # the names too: a training file and a test file may have been exchanged
        key.update(f"{path.relative_to(folder)}\n".encode())
        try:
            with path.open("rb") as file:
                key.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None
    # 96 bits: short enough for a file name, and no two data sets meet by chance
    return key.hexdigest()[:24]


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """sha256 of the names, types, shapes and values."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        # the same bytes in another shape or type are other samples
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def cached(
    name: str,
    make: Callable[[], dict[str, Tensor]],
) -> dict[str, Tensor]:
    """The tensors under this name, made and kept if they are not there, or damaged.

    What is kept is mapped from its file: processes share it, and the system may drop and read again
    what is not in use. A cache that cannot be written is no error.
    """
    try:
        there = kept(name)
    except DamagedCache as error:
        warnings.warn(f"{error}: it is made anew", stacklevel=2)
        there = None
    if there is not None:
        return there
    tensors = make()
    with suppress(OSError):
        keep(name, tensors)
        # read back, so that from the first start on it is the mapped file that is used
        return kept(name) or tensors
    return tensors


def kept(name: str) -> dict[str, Tensor] | None:
    """The tensors under this name, or None; a file that is not as it was written is refused."""
    import safetensors.torch

    path = place(name)
    if not path.is_file():
        return None
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            written = (file.metadata() or {}).get(CHECKSUM)
        tensors = safetensors.torch.load_file(path)
    except FileNotFoundError:
        # another process has just taken it away
        return None
    except (SafetensorError, OSError, ValueError) as error:
        raise DamagedCache(f"{path} is damaged ({error})") from None
    if written is None:
        raise DamagedCache(f"{path} is damaged (it has no checksum)")
    if written != checksum(tensors):
        raise DamagedCache(f"{path} is damaged (its checksum does not agree)")
    return tensors


def keep(
    name: str,
    tensors: Mapping[str, Tensor],
) -> None:
    """Keep the tensors under this name.

    They are written beside it, then renamed, so that a reader never sees half a file.
    """
    import safetensors.torch

    path = place(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    # with the number of the process: two that start at once write two files
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    whole = {key: tensor.contiguous() for key, tensor in tensors.items()}
    try:
        safetensors.torch.save_file(
            whole,
            part,
            metadata={CHECKSUM: checksum(whole)},
        )
        part.replace(path)
    except (SafetensorError, OSError) as error:
        # safetensors reports a full disk as an error of its own
        part.unlink(missing_ok=True)
        raise OSError(str(error)) from None
