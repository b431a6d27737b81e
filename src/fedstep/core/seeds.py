"""Randomness as a function of what it is for, not of when it is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from operator import index
from struct import unpack

import torch

SEPARATOR = "\x1f"  # in no part, so that ("a", "bc") and ("ab", "c") differ


def key(*parts: int | str) -> int:
    """A 63-bit number that depends on all parts: `key(seed, round, client, "batches")`."""
    return _number(SEPARATOR.join(map(_word, parts)))


def keys(
    before: Sequence[int | str],
    each: Iterable[int],
    after: Sequence[int | str],
) -> list[int]:
    """`key(*before, one, *after)` for each of many; the parts they share are read once.

    >>> keys([0, 3], [7, 8], ["forward"]) == [key(0, 3, 7, "forward"), key(0, 3, 8, "forward")]
    True
    """
    head = "".join(_word(part) + SEPARATOR for part in before)
    tail = "".join(SEPARATOR + _word(part) for part in after)
    # `_word` and `_number`, written out: a call for each would cost as much as the hash
    texts = [f"{head}int:{index(one)}{tail}".encode() for one in each]
    digests = [blake2b(text, digest_size=8).digest() for text in texts]
    whole = unpack(f">{len(digests)}Q", b"".join(digests))
    return [number >> 1 for number in whole]


def generator(*parts: int | str) -> torch.Generator:
    """A fresh generator for one purpose. No global generator is ever touched.

    >>> one = torch.rand(1, generator=generator(0, 3, "sample"))
    >>> one == torch.rand(1, generator=generator(0, 3, "sample"))
    tensor([True])
    """
    seed = key(*parts)
    return torch.Generator().manual_seed(seed)


def _number(text: str) -> int:
    # not `hash`: that of a text differs from process to process
    digest = blake2b(text.encode(), digest_size=8).digest()
    # torch takes a signed 64-bit seed: the lowest bit goes, and the sign is never set
    return int.from_bytes(digest, "big") >> 1


def _word(part: int | str) -> str:
    # the kind is part of the key: 1 and "1" are different purposes
    if isinstance(part, str):
        return f"str:{part}"
    # `index` refuses a float: 3.0 where 3 is meant would silently be another seed
    whole = index(part)
    return f"int:{whole}"
