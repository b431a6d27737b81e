"""How the accepted step is applied, and where the gradient is looked up."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.local_part import LocalPart
from fedstep.core.looks import surely_none
from fedstep.core.vec import NewState, Scalar, State, Vec, scale

Look: TypeAlias = Callable[[Vec], Vec]  # the gradient of the batch at hand, elsewhere; counted


def advance(x: Vec, step: Scalar, d: Vec) -> Vec:
    """x + step * d; where the step is 0, x itself."""
    # in place, into the product: a block of models is the largest tensor of a client
    moved = scale(step, d).add_(x)
    still = step == 0
    if surely_none(still):
        return moved
    # where, not the product alone: 0 * NaN would spoil a client whose search was refused
    return torch.where(still.unsqueeze(-1), x, moved)


class Move(LocalPart):
    """Maps the point x, the accepted step and the direction d to the next point.

    A move overrides what it needs. The state lasts for a round.
    """

    def begin(self, x: Vec, shared: State) -> NewState:
        """The state at the beginning of a round, given what the server sent."""
        return self.init(x)

    def view(self, x: Vec, seed: Tensor, state: State) -> Vec:
        """Where value and gradient are looked up, and the step is searched for.

        seed is that of the local step.
        """
        return x

    @abstractmethod
    def __call__(
        self,
        x: Vec,
        step: Scalar,
        d: Vec,
        look: Look,
        state: State,
    ) -> tuple[Vec, NewState]:
        """The next point, and the state for the next step."""


@dataclass(frozen=True)
class Straight(Move):
    """x + step * d."""

    intrinsic: ClassVar[bool] = True

    def __call__(
        self,
        x: Vec,
        step: Scalar,
        d: Vec,
        look: Look,
        state: State,
    ) -> tuple[Vec, NewState]:
        return advance(x, step, d), {}


@dataclass(frozen=True)
class Inertia(Move):
    """Keep a part of the last displacement (Polyak's heavy ball behind a search).

        x_{k+1} = x_k + eta_k d_k + beta (x_k - x_{k-1})

    The search does not see the inertia: it tests eta_k along d_k. With a constant step it is the
    direction `Momentum`. `damped` walks only the part 1 - beta of eta_k d_k, so that a constant d
    is taken once in the long run (NGN-M).
    """

    beta: float = 0.6  # the SLS program's for networks; 0.9 on convex problems
    damped: bool = False
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_beta("Inertia", self.beta)

    def init(self, x: Vec) -> NewState:
        return {"before": x}

    def __call__(
        self,
        x: Vec,
        step: Scalar,
        d: Vec,
        look: Look,
        state: State,
    ) -> tuple[Vec, NewState]:
        # the step found is not shortened in the record: it is what the search accepted
        walked = step
        if self.damped:
            walked = (1 - self.beta) * step
        inertia = self.beta * (x - state["before"])
        return advance(x, walked, d) + inertia, {"before": x}


@dataclass(frozen=True)
class Nesterov(Move):
    """Go beyond the new point by a part of what it gained on the last one.

        y_{k+1} = x_k + eta_k d_k;  x_{k+1} = y_{k+1} + beta_k (y_{k+1} - y_k)

    With beta None, beta_k = (lambda_k - 1) / lambda_{k+1} as the SLS program computes it: its
    recursion lambda_{k+1} = (1 + sqrt(1 + 4 lambda_{k-1}^2)) / 2 takes the last lambda but one, so
    that every value serves twice, and beta_0 = -1: the first step of a round stays where it is.
    """

    beta: float | None = None  # None: Nesterov's sequence
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.beta is not None:
            _check_beta("Nesterov", self.beta)

    def init(self, x: Vec) -> NewState:
        if self.beta is not None:
            return {"y": x}
        one = x.new_ones(x.shape[:-1])
        return {
            "y": x,
            "beta": -one,
            "lambda": one,
            "last": torch.zeros_like(one),
        }

    def __call__(
        self,
        x: Vec,
        step: Scalar,
        d: Vec,
        look: Look,
        state: State,
    ) -> tuple[Vec, NewState]:
        y = advance(x, step, d)
        if self.beta is not None:
            return y + self.beta * (y - state["y"]), {"y": y}
        # "last" is lambda_{k-1}: the program's index, one behind Nesterov's own
        last = state["lambda"]
        now = (1 + (1 + 4 * state["last"] ** 2).sqrt()) / 2
        ahead = y + scale(state["beta"], y - state["y"])
        after = {
            "y": y,
            "beta": (last - 1) / now,
            "lambda": now,
            "last": last,
        }
        return ahead, after


@dataclass(frozen=True)
class Decayed(Move):
    """Decoupled weight decay, whatever the step is, and a velocity on top (Deep Frank-Wolfe).

        r = weight x;  z <- beta z + eta (d - r);  x <- x - rate r + eta d + beta z

    eta is the step found, rate the longest one. With eta = rate it is Nesterov's momentum on d - r.
    """

    rate: float = 0.1  # the longest step of the rule beside it
    weight: float = 0.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        _check_beta("Decayed", self.beta)
        if not (self.rate > 0 and self.weight >= 0):
            raise InputError(
                f"Decayed(rate={self.rate}, weight={self.weight}): "
                "the rate must be positive, the weight 0 or more"
            )

    def init(self, x: Vec) -> NewState:
        return {"velocity": torch.zeros_like(x)}

    def __call__(
        self,
        x: Vec,
        step: Scalar,
        d: Vec,
        look: Look,
        state: State,
    ) -> tuple[Vec, NewState]:
        # r goes with the longest rate, d with the step found: the decay must not stop with it
        r = self.weight * x
        z = self.beta * state["velocity"] + scale(step, d - r)
        new = advance(x, step, d) - self.rate * r + self.beta * z
        return new, {"velocity": z}


@dataclass(frozen=True)
class Extragradient(Move):
    """Use the gradient that waits at the end of the step.

        x <- x - eta grad phi(x + eta d)

    It costs one more gradient a step.
    """

    def __call__(
        self,
        x: Vec,
        step: Scalar,
        d: Vec,
        look: Look,
        state: State,
    ) -> tuple[Vec, NewState]:
        # both gradients are of the same batch, or their difference would be noise
        ahead = advance(x, step, d)
        return advance(x, step, -look(ahead)), {}


def _check_beta(part: str, beta: float) -> None:
    if not 0 <= beta < 1:
        raise InputError(f"{part}(beta={beta}): beta must lie in [0, 1)")
