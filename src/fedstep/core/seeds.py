"""Randomness as a function of what it is for, not of when it is drawn."""

from __future__ import annotations

from hashlib import blake2b

import torch


def key(*parts: int | str) -> int:
    """A 63-bit number that depends on all parts: `key(seed, round, client, "batches")`."""
    digest = blake2b("\x1f".join(f"{type(p).__name__}:{p}" for p in parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(*parts: int | str) -> torch.Generator:
    """A fresh generator for one purpose. No global generator is ever touched.

    >>> torch.rand(1, generator=generator(0, 3, "sample")) == torch.rand(1, generator=generator(0, 3, "sample"))
    tensor([True])
    """
    return torch.Generator().manual_seed(key(*parts))
