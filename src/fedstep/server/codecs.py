"""How a client's delta travels: what is sent, and what the client keeps of it for the next time."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Protocol

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import State, Vec, prefixed, under


class Codec(Protocol):
    """How a delta travels to the server."""

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        """What a client keeps between its rounds, for a model x of shape `(d,)`."""
        ...

    def __call__(self, delta: Vec, memory: State) -> tuple[Vec, dict[str, Tensor]]:
        """The delta as the server decodes it, and the client's new memory."""
        ...

    def size(self, delta: Vec) -> int:
        """Bytes on the wire of one client's delta of shape `(d,)`."""
        ...


@dataclass(frozen=True)
class Plain:
    """The delta as it is."""

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        return {}

    def __call__(self, delta: Vec, memory: State) -> tuple[Vec, dict[str, Tensor]]:
        return delta, {}

    def size(self, delta: Vec) -> int:
        return delta.numel() * delta.element_size()


@dataclass(frozen=True)
class TopK:
    """The largest coordinates by magnitude, a `fraction` of all (at least one); the others count as 0.

    Sent are the values and where they stand: a 4-byte number each or one bit a coordinate, whichever is less.
    """

    fraction: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise InputError(
                f"TopK(fraction={self.fraction}): the fraction must lie in (0, 1]; try 0.01"
            )

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        return {}

    def __call__(self, delta: Vec, memory: State) -> tuple[Vec, dict[str, Tensor]]:
        places = delta.abs().topk(self._count(delta.shape[-1]), -1).indices
        return torch.zeros_like(delta).scatter(-1, places, delta.gather(-1, places)), {}

    def size(self, delta: Vec) -> int:
        k, all_of_it = self._count(delta.numel()), delta.numel() * delta.element_size()
        return min(k * delta.element_size() + min(4 * k, ceil(delta.numel() / 8)), all_of_it)

    def _count(self, d: int) -> int:
        return max(1, round(self.fraction * d))


@dataclass(frozen=True)
class ScaledSign:
    """One bit a coordinate and one number: C(x) = |x|_1 / d * sign(x), with sign(0) = 1.

    It leaves out |C(x) - x|^2 = |x|^2 - |x|_1^2 / d.
    """

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        return {}

    def __call__(self, delta: Vec, memory: State) -> tuple[Vec, dict[str, Tensor]]:
        size = delta.abs().mean(-1, keepdim=True)
        return torch.where(delta < 0, -size, size), {}

    def size(self, delta: Vec) -> int:
        return ceil(delta.numel() / 8) + delta.element_size()


@dataclass(frozen=True)
class ErrorFeedback:
    """What a codec leaves out is added to the client's next delta (Seide et al., 2014; Karimireddy et al., 2019).

        send C(delta + e);  e <- delta + e - C(delta + e)

    e belongs to the client and waits while it does not take part. Over a client's rounds, sent + e = the sum of its deltas.
    """

    codec: Codec = ScaledSign()

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        return {"error": torch.zeros_like(x), **prefixed("inner.", self.codec.memory_init(x))}

    def __call__(self, delta: Vec, memory: State) -> tuple[Vec, dict[str, Tensor]]:
        wanted = delta + memory["error"]
        sent, kept = self.codec(wanted, under("inner.", memory))
        return sent, {"error": wanted - sent, **prefixed("inner.", kept)}

    def size(self, delta: Vec) -> int:
        return self.codec.size(delta)
