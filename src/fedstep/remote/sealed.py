"""Sums without summands: what clients send as whole numbers, for secure aggregation.

Secure aggregation adds whole numbers modulo a power of two, and shows the server nothing but their
sum. Each number v of a client's `Aggregate` is rounded to a multiple of STEP and cut into three
digits of 18 bits, so that the sums of digits stay small and the sum of the numbers is exact:

    v / STEP = d0 + d1 2^18 + d2 2^36,    sum v = STEP (sum d0 + 2^18 sum d1 + 2^36 sum d2)

Hence a sum does not depend on the order of the clients, nor on which node holds whom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.algorithm import Algorithm, Broadcast
from fedstep.core.aggregate import Aggregate
from fedstep.core.types import Forward
from fedstep.core.vec import State, prefixed, under

STEP = 2.0**-32  # what a number of a client is rounded to
LARGEST = 2.0**20  # of a client's numbers; a client with a larger one is left out and counted
BITS = 18
DIGITS = 3
DIGIT_LIMIT = 2**BITS  # no digit is larger, up or down


@dataclass(frozen=True)
class SealedForm:
    """What is summed: names, in their order, with an example of each."""

    examples: State

    @staticmethod
    def of(algorithm: Algorithm, model: Forward, sent: Broadcast) -> SealedForm:
        """From a client without steps: both ends make the same form of the same broadcast."""
        memory = algorithm.memory_init(sent.x)
        done = algorithm.reply(sent, memory, model, [], torch.tensor(1))
        return SealedForm(_numbers(algorithm.count(done.reply, sent)))

    @property
    def size(self) -> int:
        return sum(value.numel() for value in self.examples.values())

    def whole(self, aggregate: Aggregate) -> Tensor:
        """One client's numbers as multiples of STEP; of one that is too large only that it is."""
        numbers = _numbers(aggregate)
        flat = torch.cat([numbers[name].reshape(-1).double() for name in self.examples])
        if bool((flat.abs() < LARGEST).all()):
            return torch.round(flat / STEP).to(torch.int64)
        nothing = {name: torch.zeros_like(value) for name, value in numbers.items()}
        nothing["rejected"] = torch.ones_like(numbers["rejected"])
        flat = torch.cat([nothing[name].reshape(-1).double() for name in self.examples])
        return torch.round(flat / STEP).to(torch.int64)

    def aggregate(self, whole: Tensor) -> Aggregate:
        """The sum of all clients again."""
        values = whole.double() * STEP
        state = {}
        first = 0
        for name, like in self.examples.items():
            piece = values[first : first + like.numel()]
            state[name] = piece.reshape(like.shape).to(like.dtype)
            first += like.numel()
        return Aggregate(
            weight=state["weight"],
            delta=state["delta"],
            norm_sq=state["norm_sq"],
            message=under("message.", state),
            clients=int(state["clients"]),
            rejected=int(state["rejected"]),
        )


def cut_digits(whole: Tensor) -> Tensor:
    """Whole numbers as digits, `(3 n,)`: two of 18 bits, and what is left with its sign."""
    mask = DIGIT_LIMIT - 1
    return torch.cat([whole & mask, (whole >> BITS) & mask, whole >> (2 * BITS)])


def from_digits(sums: Tensor) -> Tensor:
    """Whole numbers from the sums of their digits."""
    low, middle, high = sums.reshape(DIGITS, -1).unbind()
    whole: Tensor = low + (middle << BITS) + (high << (2 * BITS))
    return whole


def sealed_sum(form: SealedForm, aggregates: Sequence[Aggregate]) -> Tensor:
    """The digits of what the clients of one node send together."""
    total = torch.zeros(form.size, dtype=torch.int64)
    for aggregate in aggregates:
        total += form.whole(aggregate)
    return cut_digits(total)


def _numbers(aggregate: Aggregate) -> dict[str, Tensor]:
    counts: Mapping[str, int] = {"clients": aggregate.clients, "rejected": aggregate.rejected}
    return {
        "weight": aggregate.weight,
        "delta": aggregate.delta,
        "norm_sq": aggregate.norm_sq,
        **prefixed("message.", aggregate.message),
        **{name: torch.tensor(count) for name, count in counts.items()},
    }
