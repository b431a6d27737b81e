"""The first places of a random order, without drawing the rest of it."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

# where drawing a whole order costs more than a few places of it, one by one in Python
LEAST = 2000
PER_PLACE = 100
MOST = 10**8  # above, torch draws 64 bits a place
WORD = 0xFFFFFFFF


def shuffled_prefix(n: int, count: int, draw: torch.Generator) -> Tensor:
    """`torch.randperm(n, generator=draw)[:count]`, to the bit; `draw` serves once."""
    small = n < LEAST + PER_PLACE * count
    if small or n > MOST or not _torch_draws_from_the_front():
        order = torch.randperm(n, generator=draw)
        # most rounds are one whole pass, which need not be cut
        return order if count == n else order[:count]
    return _prefix(n, count, draw)


def _prefix(n: int, count: int, draw: torch.Generator) -> Tensor:
    # place i changes with one at or behind it, chosen by 32 bits: what is in front is final
    moved: dict[int, int] = {}
    places = []
    for i, word in zip(range(count), _words(count, draw), strict=False):
        other = i + word % (n - i)
        places.append(moved.get(other, other))
        moved[other] = moved.get(i, i)
    return torch.tensor(places, dtype=torch.int64)


def _words(count: int, draw: torch.Generator) -> list[int]:
    """The next numbers of 32 bits, which torch gives out in pairs."""
    pairs = torch.empty((count + 1) // 2, dtype=torch.int64)
    pairs.random_(-(2**63), None, generator=draw)
    words = []
    for pair in pairs.tolist():
        words.append(pair >> 32 & WORD)
        words.append(pair & WORD)
    return words


@cache
def _torch_draws_from_the_front() -> bool:
    """Whether this version of torch shuffles as it is done here: tried, not believed."""
    whole = torch.randperm(300, generator=torch.Generator().manual_seed(1))
    return torch.equal(whole[:20], _prefix(300, 20, torch.Generator().manual_seed(1)))
