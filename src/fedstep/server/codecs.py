"""How a client's delta travels: what is sent, and what the client keeps of it for the next time.

A codec maps the delta to what the server will decode; `pack` and `unpack` are the way over the
wire, with nothing lost: unpack(pack(sent), dim) is `sent` to the bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.nested import NestedState
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, State, Vec


class Codec(ABC):
    """How a delta travels to the server."""

    def memory_init(self, x: Vec) -> NewState:
        """What a client keeps between its rounds, for a model x of shape `(d,)`."""
        return {}

    @abstractmethod
    def __call__(self, delta: Vec, memory: State) -> tuple[Vec, NewState]:
        """The delta as the server decodes it, and the client's new memory."""

    @abstractmethod
    def pack(self, sent: Vec) -> NewState:
        """What one client puts on the wire for a decoded delta of shape `(d,)`."""

    @abstractmethod
    def unpack(self, packed: State, dim: int) -> Vec:
        """The decoded delta of dim coordinates, from what is on the wire."""

    @abstractmethod
    def size(self, delta: Vec) -> int:
        """Bytes on the wire of one client's delta of shape `(d,)`: those of `pack`."""


@dataclass(frozen=True)
class Plain(Codec):
    """The delta as it is."""

    def __call__(self, delta: Vec, memory: State) -> tuple[Vec, NewState]:
        return delta, {}

    def pack(self, sent: Vec) -> NewState:
        return {"delta": sent}

    def unpack(self, packed: State, dim: int) -> Vec:
        return packed["delta"]

    def size(self, delta: Vec) -> int:
        return _bytes_of_all(delta)


@dataclass(frozen=True)
class TopK(Codec):
    """The largest coordinates by magnitude, a `fraction` of all (at least one); the others are 0.

    Sent are the values and where they stand: a 4-byte number each or one bit a coordinate,
    whichever is less. Where all coordinates take no more room than that, all are sent.
    """

    fraction: float = 0.01  # of the coordinates; FedCAMS's paper has 1/64 to 1/256

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise InputError(
                f"TopK(fraction={self.fraction}): the fraction must lie in (0, 1]; try 0.01"
            )

    def __call__(self, delta: Vec, memory: State) -> tuple[Vec, NewState]:
        count = self._count(delta.shape[-1])
        # by magnitude of the delta as it is: with error feedback, of the delta and what is owed
        places = delta.abs().topk(count, -1).indices
        values = delta.gather(-1, places)
        return torch.zeros_like(delta).scatter(-1, places, values), {}

    def pack(self, sent: Vec) -> NewState:
        dim = sent.numel()
        count = self._count(dim)
        # for a large fraction the places weigh more than the zeros they save
        if self.size(sent) == _bytes_of_all(sent):
            return {"delta": sent}
        # from the decoded delta, not from the choice: memory of the choice need not travel along
        places = _nonzero_places(sent, count)
        values = sent[places]
        if _bytes_of_places(count) <= _bytes_of_bits(dim):
            return {
                "values": values,
                "places": places.to(torch.int32),
            }
        chosen = torch.zeros(
            dim,
            dtype=torch.bool,
            device=sent.device,
        )
        chosen[places] = True
        return {
            "values": values,
            "chosen": pack_bits(chosen),
        }

    def unpack(self, packed: State, dim: int) -> Vec:
        if "delta" in packed:
            return packed["delta"]
        if "places" in packed:
            places = packed["places"].long()
        else:
            places = unpack_bits(packed["chosen"], dim).nonzero().squeeze(-1)
        values = packed["values"]
        return values.new_zeros(dim).scatter(-1, places, values)

    def size(self, delta: Vec) -> int:
        dim = delta.numel()
        count = self._count(dim)
        values = count * delta.element_size()
        places = min(_bytes_of_places(count), _bytes_of_bits(dim))
        return min(values + places, _bytes_of_all(delta))

    def _count(self, dim: int) -> int:
        return max(1, round(self.fraction * dim))


@dataclass(frozen=True)
class ScaledSign(Codec):
    """One bit a coordinate and one number: C(x) = |x|_1 / d * sign(x), with sign(0) = 1.

    It leaves out |C(x) - x|^2 = |x|^2 - |x|_1^2 / d.
    """

    def __call__(self, delta: Vec, memory: State) -> tuple[Vec, NewState]:
        # the mean keeps |C(x)|_1 = |x|_1: the error is then orthogonal to the sign vector
        length = delta.abs().mean(-1, keepdim=True)
        return torch.where(delta < 0, -length, length), {}

    def pack(self, sent: Vec) -> NewState:
        # signbit, not < 0: the mean of tiny numbers may be 0, and -0 is to arrive as -0
        return {
            "length": sent[:1].abs(),
            "negative": pack_bits(torch.signbit(sent)),
        }

    def unpack(self, packed: State, dim: int) -> Vec:
        length = packed["length"]
        negative = unpack_bits(packed["negative"], dim)
        return torch.where(negative, -length, length)

    def size(self, delta: Vec) -> int:
        return _bytes_of_bits(delta.numel()) + delta.element_size()


@dataclass(frozen=True, eq=False)
class FeedbackMemory(NestedState):
    """What was left out so far, and what the inner codec keeps."""

    error: Vec
    inner: State


@dataclass(frozen=True)
class ErrorFeedback(Codec):
    """What a codec leaves out is added to the client's next delta (Seide et al., 2014).

        send C(delta + e);  e <- delta + e - C(delta + e)

    e belongs to the client and waits while it does not take part. Over a client's rounds, sent + e
    = the sum of its deltas (Karimireddy et al., 2019).
    """

    codec: Codec = ScaledSign()

    def __post_init__(self) -> None:
        check_slots(self, codec=Codec)

    def memory_init(self, x: Vec) -> NewState:
        memory = FeedbackMemory(error=torch.zeros_like(x), inner=self.codec.memory_init(x))
        return memory.flat()

    def __call__(self, delta: Vec, memory: State) -> tuple[Vec, NewState]:
        before = FeedbackMemory.of(memory)
        wanted = delta + before.error
        # the error is added before compression: after it, it would not fit into the message
        sent, inner = self.codec(wanted, before.inner)
        after = FeedbackMemory(error=wanted - sent, inner=inner)
        return sent, after.flat()

    def pack(self, sent: Vec) -> NewState:
        return self.codec.pack(sent)

    def unpack(self, packed: State, dim: int) -> Vec:
        return self.codec.unpack(packed, dim)

    def size(self, delta: Vec) -> int:
        return self.codec.size(delta)


def pack_bits(flags: Tensor) -> Tensor:
    """Truth values of shape `(d,)` as bytes, eight in one, the first in the lowest bit."""
    padded = flags.new_zeros(8 * _bytes_of_bits(flags.numel()))
    padded[: flags.numel()] = flags
    powers = 2 ** torch.arange(8, device=flags.device)
    return (padded.reshape(-1, 8) * powers).sum(-1).to(torch.uint8)


def unpack_bits(packed: Tensor, dim: int) -> Tensor:
    """The first dim truth values again."""
    shifts = torch.arange(8, device=packed.device)
    bits = packed.long().unsqueeze(-1) >> shifts & 1
    return bits.reshape(-1)[:dim].bool()


def _nonzero_places(sent: Vec, count: int) -> Tensor:
    """Where the `count` values stand, in order.

    A value that was sent may be 0: then places of zeros fill up the number, so that the size does
    not depend on the values.
    """
    # signbit: -0 is not 0 to the bit
    taken = (sent != 0) | torch.signbit(sent)
    # stable: both ends and every run choose the same zeros to fill up with
    order = taken.int().argsort(descending=True, stable=True)
    return order[:count].sort().values


def _bytes_of_all(delta: Vec) -> int:
    return delta.numel() * delta.element_size()


def _bytes_of_bits(dim: int) -> int:
    return ceil(dim / 8)


def _bytes_of_places(count: int) -> int:
    return 4 * count
