"""What clients send forms a sum."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedstep.core.vec import State, Vec, finite, lift, norm_sq


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
        tallies: State | None = None,
        listed: bool = False,
    ) -> Aggregate:
        """The contribution of one client, `(d,)`, or of a block, `(C, d)`.

        An update that is not finite, or whose weighted square is not, or that is not `usable`, is
        left out and counted: one broken client must not turn the model into NaN.
        """
        sound = _sound(delta, message, weight)
        if usable is not None:
            sound = sound & usable
        counted = sound & (weight > 0)
        nothing = torch.zeros_like(weight)
        weights = torch.where(counted, weight, nothing)
        weights = weights.to(delta.dtype)
        everyone_once = torch.ones_like(weights)

        def total(value: Tensor, weights: Tensor = weights) -> Tensor:
            factors = lift(weights, value)
            weighted = factors * value
            # where, not the product alone: 0 * NaN would bring a rejected client back
            weighted = torch.where(
                lift(counted, value),
                weighted,
                torch.zeros_like(value),
            )
            # one client has no axis to sum over
            if sound.dim() == 0:
                return weighted
            return weighted.sum(0)

        weighted_message = {}
        for name, value in message.items():
            weighted_message[name] = total(value)

        sums = {}
        for name, value in (tallies or {}).items():
            sums[name] = total(value, everyone_once)
        shortened = 0
        if clipped is not None:
            # only of those that count: `clipped` is a part of `clients`
            counted_and_clipped = counted & clipped
            shortened = int(counted_and_clipped.sum())
        return Aggregate(
            weight=total(everyone_once),
            delta=total(delta),
            norm_sq=total(norm_sq(delta)),
            message=weighted_message,
            clients=int(counted.sum()),
            rejected=int((~sound).sum()),
            clipped=shortened,
            tallies=sums,
            deltas=_list(delta, counted, listed),
        )

    def __add__(self, other: Aggregate) -> Aggregate:
        message = {}
        for name, value in self.message.items():
            message[name] = value + other.message[name]
        tallies = {}
        for name, value in self.tallies.items():
            tallies[name] = value + other.tallies[name]
        return Aggregate(
            weight=self.weight + other.weight,
            delta=self.delta + other.delta,
            norm_sq=self.norm_sq + other.norm_sq,
            message=message,
            clients=self.clients + other.clients,
            rejected=self.rejected + other.rejected,
            clipped=self.clipped + other.clipped,
            tallies=tallies,
            # lists form a sum too: one behind the other
            deltas=self.deltas + other.deltas,
        )

    @property
    def usable(self) -> bool:
        """Whether somebody counted, and the sums have not overflowed."""
        if self.clients == 0:
            return False
        # the summands were finite; 1e38 + 1e38 in float32 is not
        sums = (self.delta, self.norm_sq, *self.message.values())
        finite_sums = [bool(torch.isfinite(value).all()) for value in sums]
        return all(finite_sums)

    def mean(self, total: Tensor) -> Tensor:
        """A weighted sum over clients as a weighted mean."""
        return total / self.weight


def _list(
    delta: Vec,
    counted: Tensor,
    listed: bool,
) -> tuple[Tensor, ...]:
    """The deltas that count, client axis first; nothing where nobody asks for them."""
    if not listed:
        return ()
    rows = delta.reshape(-1, delta.shape[-1])
    return (rows[counted.reshape(-1)],)


def _sound(
    delta: Vec,
    message: State,
    weight: Tensor,
) -> Tensor:
    """Whether all that a client sends is finite, per client, and can be summed."""
    # the square as it will be summed: that of 1e19 is finite in float32, 50 times it is not
    square = norm_sq(delta)
    weighted_square = weight.to(delta.dtype) * square
    can_be_summed = torch.isfinite(weighted_square)
    sound = finite(delta) & can_be_summed
    for value in message.values():
        # all axes behind the clients' as one
        flat_shape = (*sound.shape, -1)
        each = torch.isfinite(value).reshape(flat_shape)
        sound = sound & each.all(-1)
    return sound
