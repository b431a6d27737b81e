"""Parsed data sets kept as tensors, so that a second start is quick."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

if TYPE_CHECKING:  # safetensors.torch is imported where tensors are touched: to ask where the cache is needs no torch
    from torch import Tensor


def home() -> Path:
    """`FEDSTEP_CACHE`, or a folder in the user's cache directory."""
    given = os.environ.get("FEDSTEP_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else base / "fedstep"


def place(name: str) -> Path:
    """The file of the tensors under this name."""
    return home() / f"{name}.safetensors"


def fingerprint(files: Iterable[Path], *words: object) -> str:
    """Changes with the names, sizes and times of the files, and with the words."""
    stats = [f"{p.name}:{p.stat().st_size}:{p.stat().st_mtime_ns}" for p in sorted(files)]
    return hashlib.sha256("\n".join([*map(str, words), *stats]).encode()).hexdigest()[:24]


def cached(name: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors under this name, made and kept if they are not there; a cache that cannot be written is no error.

    What is kept is mapped from its file: processes share it, and the system may drop and read again what is not in use.
    """
    there = kept(name)
    if there is not None:
        return there
    tensors = make()
    with suppress(OSError):
        keep(name, tensors)
        return kept(name) or tensors
    return tensors


def kept(name: str) -> dict[str, Tensor] | None:
    """The tensors under this name; None where there are none, or a torn or foreign file."""
    import safetensors.torch

    try:
        return safetensors.torch.load_file(place(name))
    except (SafetensorError, OSError):
        return None


def keep(name: str, tensors: dict[str, Tensor]) -> None:
    """Keep the tensors under this name: written beside it, then renamed, so that a reader never sees half a file."""
    import safetensors.torch

    path = place(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        safetensors.torch.save_file({k: v.contiguous() for k, v in tensors.items()}, part)
        part.replace(path)
    except (
        SafetensorError,
        OSError,
    ) as error:  # safetensors reports a full disk as an error of its own
        part.unlink(missing_ok=True)
        raise OSError(str(error)) from None
