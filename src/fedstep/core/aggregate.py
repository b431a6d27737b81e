"""What clients send forms a sum."""

from __future__ import annotations

from dataclasses import dataclass

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
    message: State
    clients: int  # that count
    rejected: int  # whose update was not finite

    @staticmethod
    def of(
        delta: Vec,
        message: State,
        weight: Tensor,
        usable: Tensor | None = None,
    ) -> Aggregate:
        """The contribution of one client, `(d,)`, or of a block, `(C, d)`.

        An update that is not finite, or whose square is not, or that is not `usable`, is left out
        and counted: one broken client must not turn the model into NaN.
        """
        sound = _sound(delta, message)
        if usable is not None:
            sound = sound & usable
        counted = sound & (weight > 0)
        weights = torch.where(counted, weight, torch.zeros_like(weight)).to(delta.dtype)

        def total(value: Tensor) -> Tensor:
            weighted = lift(weights, value) * value
            # where, not the product alone: 0 * NaN would bring a rejected client back
            weighted = torch.where(lift(counted, value), weighted, torch.zeros_like(value))
            if sound.dim() == 0:
                return weighted
            return weighted.sum(0)

        return Aggregate(
            weight=total(torch.ones_like(weights)),
            delta=total(delta),
            norm_sq=total(norm_sq(delta)),
            message={name: total(value) for name, value in message.items()},
            clients=int(counted.sum()),
            rejected=int((~sound).sum()),
        )

    def __add__(self, other: Aggregate) -> Aggregate:
        message = {}
        for name, value in self.message.items():
            message[name] = value + other.message[name]
        return Aggregate(
            weight=self.weight + other.weight,
            delta=self.delta + other.delta,
            norm_sq=self.norm_sq + other.norm_sq,
            message=message,
            clients=self.clients + other.clients,
            rejected=self.rejected + other.rejected,
        )

    def mean(self, total: Tensor) -> Tensor:
        """A weighted sum over clients as a weighted mean."""
        return total / self.weight


def _sound(delta: Vec, message: State) -> Tensor:
    """Whether all that a client sends is finite, per client."""
    sound = finite(delta) & torch.isfinite(norm_sq(delta))
    for value in message.values():
        each = torch.isfinite(value).reshape((*sound.shape, -1))
        sound = sound & each.all(-1)
    return sound
