"""How a client's delta travels: what is sent, and what the client keeps of it for the next time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from fedstep.core.vec import State, Vec


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
