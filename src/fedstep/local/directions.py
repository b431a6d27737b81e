"""Which way: each part maps a descent direction (at first -g) to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import State, Vec, norm_sq, prefixed, scale, under


@runtime_checkable
class Direction(Protocol):
    """Which way: maps a descent direction to another."""

    def init(self, x: Vec) -> dict[str, Tensor]: ...
    def apply(self, d: Vec, x: Vec, state: State) -> tuple[Vec, dict[str, Tensor]]: ...
    def travel(self, d: Vec, state: State) -> Vec:
        """The way to go once the step along d is found, given the state after `apply`: along d, unless a part differs."""
        return d


@dataclass(frozen=True)
class Steepest(Direction):
    """d itself: the negative gradient."""

    intrinsic: ClassVar[bool] = (
        True  # uses vectors through sums only, so that any coordinates serve
    )

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {}

    def apply(self, d: Vec, x: Vec, state: State) -> tuple[Vec, dict[str, Tensor]]:
        return d, {}


@dataclass(frozen=True)
class Clip(Direction):
    """Shorten d to the given norm: d * min(1, norm / (|d| + 1e-6)), as torch clips gradients."""

    norm: float = 10.0

    def __post_init__(self) -> None:
        if not self.norm > 0:
            raise InputError(f"Clip(norm={self.norm}): the norm must be positive")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {}

    def apply(self, d: Vec, x: Vec, state: State) -> tuple[Vec, dict[str, Tensor]]:
        return scale((self.norm / (norm_sq(d).sqrt() + 1e-6)).clamp(max=1.0), d), {}


@dataclass(frozen=True)
class Decay(Direction):
    """d - weight * x: weight decay as optimisers apply it, after clipping and outside the loss.

    A line search does not see it; use the term `L2` there.
    """

    weight: float = 1e-4

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {}

    def apply(self, d: Vec, x: Vec, state: State) -> tuple[Vec, dict[str, Tensor]]:
        return d - self.weight * x, {}


@dataclass(frozen=True)
class Momentum(Direction):
    """v <- beta v + d, go along v (heavy ball on the client, forgotten at the end of the round).

    v need not be a descent direction of the batch at hand; a line search then takes no step and counts a failure.
    """

    beta: float = 0.9
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise InputError(f"Momentum(beta={self.beta}): beta must lie in [0, 1)")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"velocity": torch.zeros_like(x)}

    def apply(self, d: Vec, x: Vec, state: State) -> tuple[Vec, dict[str, Tensor]]:
        v = self.beta * state["velocity"] + d
        return v, {"velocity": v}


@dataclass(frozen=True)
class Chain(Direction):
    """Several directions, first to last: `Chain((Clip(10), Decay(1e-4)))`.

    A part that travels another way than it searches can only be the last.
    """

    parts: tuple[Direction, ...]

    def __post_init__(self) -> None:
        for part in self.parts[:-1]:
            if type(part).travel is not Direction.travel:
                raise InputError(
                    f"Chain: {type(part).__name__} travels another way than it searches; put it last"
                )

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {
            k: v
            for i, part in enumerate(self.parts)
            for k, v in prefixed(f"{i}.", part.init(x)).items()
        }

    def apply(self, d: Vec, x: Vec, state: State) -> tuple[Vec, dict[str, Tensor]]:
        after: dict[str, Tensor] = {}
        for i, part in enumerate(self.parts):
            d, new = part.apply(d, x, under(f"{i}.", state))
            after |= prefixed(f"{i}.", new)
        return d, after

    def travel(self, d: Vec, state: State) -> Vec:
        last = len(self.parts) - 1
        return self.parts[last].travel(d, under(f"{last}.", state)) if self.parts else d
