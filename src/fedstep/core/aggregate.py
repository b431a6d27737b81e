"""What clients send forms a sum."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.vec import State, Vec, finite, lift, norm_sq


@dataclass(frozen=True)
class Aggregate:
    """(sum w, sum w delta, sum w |delta|^2, sum w message): a monoid under `+`.

    Hence clients can be added in any grouping, in a stream, over a tree or under secure aggregation.
    """

    weight: Tensor  # ()
    delta: Vec  # (d,)
    norm_sq: Tensor  # ()
    message: State
    clients: int  # that count
    rejected: int  # whose update was not finite

    @staticmethod
    def of(delta: Vec, message: State, weight: Tensor, usable: Tensor | None = None) -> Aggregate:
        """The contribution of one client, `(d,)`, or of a block, `(C, d)`.

        An update that is not finite, or whose square is not, or that is not `usable`, is left out and counted: one broken client
        must not turn the model into NaN.
        """
        ok = finite(delta) & torch.isfinite(norm_sq(delta))
        ok = ok if usable is None else ok & usable
        for value in message.values():
            ok = ok & torch.isfinite(value).reshape((*ok.shape, -1)).all(-1)
        count = ok & (weight > 0)
        w = torch.where(count, weight, torch.zeros_like(weight)).to(delta.dtype)

        def total(value: Tensor) -> Tensor:
            kept = torch.where(lift(count, value), lift(w, value) * value, torch.zeros_like(value))
            return kept.sum(0) if ok.dim() else kept

        return Aggregate(
            total(torch.ones_like(w)),
            total(delta),
            total(norm_sq(delta)),
            {name: total(value) for name, value in message.items()},
            int(count.sum()),
            int((~ok).sum()),
        )

    def __add__(self, other: Aggregate) -> Aggregate:
        return Aggregate(
            self.weight + other.weight,
            self.delta + other.delta,
            self.norm_sq + other.norm_sq,
            {name: value + other.message[name] for name, value in self.message.items()},
            self.clients + other.clients,
            self.rejected + other.rejected,
        )

    def mean(self, total: Tensor) -> Tensor:
        """A weighted sum over clients as a weighted mean."""
        return total / self.weight
