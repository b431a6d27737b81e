"""Randomness as a function of what it is for, not of when it is drawn."""

from __future__ import annotations

from hashlib import blake2b
from operator import index

import torch

SEPARATOR = "\x1f"  # in no part, so that ("a", "bc") and ("ab", "c") differ


def key(*parts: int | str) -> int:
    """A 63-bit number that depends on all parts: `key(seed, round, client, "batches")`."""
    words = [_word(part) for part in parts]
    text = SEPARATOR.join(words)
    # not `hash`: that of a text differs from process to process
    hashed = blake2b(text.encode(), digest_size=8)
    digest = hashed.digest()
    number = int.from_bytes(digest, "big")
    # torch takes a signed 64-bit seed: the lowest bit goes, and the sign is never set
    return number >> 1


def generator(*parts: int | str) -> torch.Generator:
    """A fresh generator for one purpose. No global generator is ever touched.

    >>> one = torch.rand(1, generator=generator(0, 3, "sample"))
    >>> one == torch.rand(1, generator=generator(0, 3, "sample"))
    tensor([True])
    """
    seed = key(*parts)
    return torch.Generator().manual_seed(seed)


def _word(part: int | str) -> str:
    # the kind is part of the key: 1 and "1" are different purposes
    if isinstance(part, str):
        return f"str:{part}"
    # `index` refuses a float: 3.0 where 3 is meant would silently be another seed
    whole = index(part)
    return f"int:{whole}"
