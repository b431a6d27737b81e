"""What clients send forms a sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import TypeAlias

import torch
from torch import Tensor

from fedstep.core.vec import State, Vec, finite, lift, norm_sq


@dataclass(frozen=True)
class Vote:
    """One place a client among `length`; the sum over clients counts how often each was taken."""

    at: Tensor  # (...) int64
    length: int


Tallies: TypeAlias = Mapping[str, Tensor | Vote]


@dataclass(frozen=True)
class Aggregate:
    """(sum w, sum w delta, sum w |delta|^2, sum w message): a monoid under `+`.

    Hence clients can be added in any grouping, in a stream, over a tree or under secure
    aggregation.
    """

    weight: Tensor  # ()
    delta: Vec  # (d,)
    norm_sq: Tensor  # ()
    message: State  # weighted sums, by name
    clients: int  # that count
    rejected: int  # whose update was not finite
    clipped: int = 0  # whose update a guard shortened
    tallies: State = field(default_factory=dict)  # sums without weights, for the server's guard
    # every delta that counts, `(C, d)` pieces in order: only where a guard asks for the list
    deltas: tuple[Tensor, ...] = ()

    @staticmethod
    def of(
        delta: Vec,
        message: State,
        weight: Tensor,
        usable: Tensor | None = None,
        clipped: Tensor | None = None,
        tallies: Tallies | None = None,
        listed: bool = False,
    ) -> Aggregate:
        """The contribution of one client, `(d,)`, or of a block, `(C, d)`.

        An update that is not finite, or whose weighted square is not, or that is not `usable`, is
        left out and counted: one broken client must not turn the model into NaN.
        """
        (whole,) = Aggregate.of_blocks(
            (slice(None),),
            delta,
            message,
            weight,
            usable,
            clipped,
            tallies,
            listed,
        )
        return whole

    @staticmethod
    def of_blocks(
        blocks: Sequence[slice],
        delta: Vec,
        message: State,
        weight: Tensor,
        usable: Tensor | None = None,
        clipped: Tensor | None = None,
        tallies: Tallies | None = None,
        listed: bool = False,
    ) -> list[Aggregate]:
        """The contributions of blocks of clients that lie one behind the other in `(C, d)`.

        Each is, to the bit, what `of` gives for its clients alone.
        """
        square = norm_sq(delta)
        sound = _sound(delta, square, message, weight)
        if usable is not None:
            sound = sound & usable
        counted = sound & (weight > 0)
        weights = torch.where(counted, weight, torch.zeros_like(weight))
        clients = _numbers(counted, blocks)
        columns = _Columns(
            blocks,
            counted,
            everyone=sum(clients) == counted.numel(),
            weights=weights.to(delta.dtype),
        )
        weight_sums = columns.sums(columns.weights)
        delta_sums = columns.weighted(delta)
        norm_sums = columns.weighted(square)
        messages = columns.states({n: columns.weighted(v) for n, v in message.items()})
        tally_sums = columns.states({n: columns.tallies(v) for n, v in (tallies or {}).items()})
        rejected = _numbers(~sound, blocks)
        shortened = [0] * len(blocks)
        if clipped is not None:
            # only of those that count: `clipped` is a part of `clients`
            shortened = _numbers(counted & clipped, blocks)
        each = []
        for number, block in enumerate(blocks):
            summand = Aggregate(
                weight=weight_sums[number],
                delta=delta_sums[number],
                norm_sq=norm_sums[number],
                message=messages[number],
                clients=clients[number],
                rejected=rejected[number],
                clipped=shortened[number],
                tallies=tally_sums[number],
                deltas=_list(delta, counted, block, listed),
            )
            each.append(summand)
        return each

    def __add__(self, other: Aggregate) -> Aggregate:
        return self._joined(other, torch.add)

    def take_in(self, other: Aggregate) -> Aggregate:
        """`self + other`, to the bit, in the memory of `self`, which nobody else may hold.

        A sum of many then takes no new memory: what came and went a client would leave the heap
        in pieces, each a little smaller than the next delta.
        """
        return self._joined(other, Tensor.add_)

    def _joined(
        self,
        other: Aggregate,
        add: Callable[[Tensor, Tensor], Tensor],
    ) -> Aggregate:
        message = {}
        for name, value in self.message.items():
            message[name] = add(value, other.message[name])
        tallies = {}
        for name, value in self.tallies.items():
            tallies[name] = add(value, other.tallies[name])
        return Aggregate(
            weight=add(self.weight, other.weight),
            delta=add(self.delta, other.delta),
            norm_sq=add(self.norm_sq, other.norm_sq),
            message=message,
            clients=self.clients + other.clients,
            rejected=self.rejected + other.rejected,
            clipped=self.clipped + other.clipped,
            tallies=tallies,
            # lists form a sum too: one behind the other
            deltas=self.deltas + other.deltas,
        )

    # once: the server asks before its step, and the report asks again
    @cached_property
    def usable(self) -> bool:
        """Whether somebody counted, and the sums have not overflowed."""
        if self.clients == 0:
            return False
        # the summands were finite; 1e38 + 1e38 in float32 is not
        sums = (self.delta, self.norm_sq, *self.message.values())
        return all(_all_finite(value) for value in sums)

    def mean(self, total: Tensor) -> Tensor:
        """A weighted sum over clients as a weighted mean."""
        return total / self.weight


@dataclass(frozen=True)
class _Columns:
    """Columns of a stack of clients, summed block by block over those that count."""

    blocks: Sequence[slice]
    counted: Tensor  # (...) bool
    everyone: bool  # whether all count
    weights: Tensor  # (...) 0 where a client does not count

    def weighted(self, values: Tensor) -> list[Tensor]:
        return self.sums(lift(self.weights, values) * values)

    def sums(self, values: Tensor) -> list[Tensor]:
        """Without weights."""
        if not self.everyone:
            # where, not the product alone: 0 * NaN would bring a rejected client back
            values = torch.where(lift(self.counted, values), values, torch.zeros_like(values))
        # one client has no axis to sum over
        if self.counted.dim() == 0:
            return [values]
        return [values[block].sum(0) for block in self.blocks]

    def tallies(self, values: Tensor | Vote) -> list[Tensor]:
        if isinstance(values, Tensor):
            # flags and whole numbers become numbers of the model's kind, as everything summed is
            dtype = torch.promote_types(values.dtype, self.weights.dtype)
            return self.sums(values.to(dtype))
        places = values.at.reshape(-1)
        counted = self.counted.reshape(-1)
        sums = []
        for block in self.blocks:
            # a sum of ones is exact in any precision, and much less work as a count
            taken = places[block][counted[block]]
            counts = torch.bincount(taken, minlength=values.length)
            sums.append(counts.to(self.weights.dtype))
        return sums

    def states(self, columns: Mapping[str, list[Tensor]]) -> list[State]:
        """One dictionary a block instead of one list a name."""
        each: list[State] = []
        for number in range(len(self.blocks)):
            each.append({name: sums[number] for name, sums in columns.items()})
        return each


def _all_finite(values: Tensor) -> bool:
    if values.numel() == 1:
        return isfinite(values.item())
    return bool(finite(values.reshape(-1)))


def _numbers(flags: Tensor, blocks: Sequence[slice]) -> list[int]:
    """How many clients of each block; one look at the tensor, not one a block."""
    each = flags.reshape(-1).tolist()
    return [sum(each[block]) for block in blocks]


def _list(
    delta: Vec,
    counted: Tensor,
    block: slice,
    listed: bool,
) -> tuple[Tensor, ...]:
    """The deltas that count, client axis first; nothing where nobody asks for them."""
    if not listed:
        return ()
    rows = delta.reshape(-1, delta.shape[-1])
    return (rows[block][counted.reshape(-1)[block]],)


def _sound(
    delta: Vec,
    square: Tensor,
    message: State,
    weight: Tensor,
) -> Tensor:
    """Whether all that a client sends is finite, per client, and can be summed."""
    # the square as it will be summed: that of 1e19 is finite in float32, 50 times it is not
    weighted_square = weight.to(delta.dtype) * square
    can_be_summed = torch.isfinite(weighted_square)
    sound = finite(delta) & can_be_summed
    for value in message.values():
        # all axes behind the clients' as one
        sound = sound & finite(value.reshape(*sound.shape, -1))
    return sound
