"""How the accepted step is applied, and where the gradient is looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.seeds import generator
from fedstep.core.vec import Scalar, State, Vec, scale

Look: TypeAlias = Callable[[Vec], Vec]  # the gradient of the batch at hand, elsewhere; counted


def advance(x: Vec, step: Scalar, d: Vec) -> Vec:
    """x + step * d; where the step is 0, x itself."""
    moved, still = scale(step, d).add_(x), step == 0
    # where, not the product alone: 0 * NaN would spoil a client whose search was refused
    return torch.where(still.unsqueeze(-1), x, moved) if bool(still.any()) else moved


class Move:
    """Maps the point x, the accepted step and the direction d to the next point; a move overrides what it needs.

    The state lasts for a round. What all clients should know travels with the model: `shared_init`, `message` and `fold`
    are its way from the clients to the server and back.
    """

    intrinsic: ClassVar[bool] = (
        False  # uses vectors through sums only, so that any coordinates serve
    )

    def init(self, x: Vec) -> dict[str, Tensor]:
        """The state before the first step of a round that begins at x of shape `(..., d)`."""
        return {}

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        """What the server sends besides the model, for a model x of shape `(d,)`."""
        return {}

    def begin(self, x: Vec, shared: State) -> dict[str, Tensor]:
        """The state at the beginning of a round, given what the server sent."""
        return self.init(x)

    def view(self, x: Vec, seed: Tensor, state: State) -> Vec:
        """Where value and gradient are looked up, and the step is searched for; seed is that of the local step."""
        return x

    def __call__(
        self, x: Vec, step: Scalar, d: Vec, look: Look, state: State
    ) -> tuple[Vec, dict[str, Tensor]]:
        """The next point, and the state for the next step."""
        raise NotImplementedError

    def message(self, state: State) -> dict[str, Tensor]:
        """What the client sends at the end of a round; the server sees the weighted sum over clients."""
        return {}

    def fold(self, shared: State, message: State, agg: Aggregate) -> dict[str, Tensor]:
        """What is sent in the next round, given the sums of the messages."""
        return dict(shared)


@dataclass(frozen=True)
class Straight(Move):
    """x + step * d."""

    intrinsic: ClassVar[bool] = True

    def __call__(
        self, x: Vec, step: Scalar, d: Vec, look: Look, state: State
    ) -> tuple[Vec, dict[str, Tensor]]:
        return advance(x, step, d), {}


@dataclass(frozen=True)
class Inertia(Move):
    """Keep a part of the last displacement (Polyak's heavy ball behind a search).

        x_{k+1} = x_k + eta_k d_k + beta (x_k - x_{k-1})

    The search does not see the inertia: it tests eta_k along d_k. With a constant step it is the direction `Momentum`.
    `damped` walks only the part 1 - beta of eta_k d_k, so that a constant d is taken once in the long run (NGN-M).
    """

    beta: float = 0.6
    damped: bool = False
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_beta("Inertia", self.beta)

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"before": x}

    def __call__(
        self, x: Vec, step: Scalar, d: Vec, look: Look, state: State
    ) -> tuple[Vec, dict[str, Tensor]]:
        walked = step
        if self.damped:
            walked = (1 - self.beta) * step
        return advance(x, walked, d) + self.beta * (x - state["before"]), {"before": x}


@dataclass(frozen=True)
class Nesterov(Move):
    """Go beyond the new point by a part of what it gained on the last one.

        y_{k+1} = x_k + eta_k d_k;  x_{k+1} = y_{k+1} + beta_k (y_{k+1} - y_k)

    With beta None, beta_k = (lambda_k - 1) / lambda_{k+1} as the SLS program computes it: its recursion
    lambda_{k+1} = (1 + sqrt(1 + 4 lambda_{k-1}^2)) / 2 takes the last lambda but one, so that every value serves twice, and
    beta_0 = -1: the first step of a round stays where it is.
    """

    beta: float | None = None
    intrinsic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.beta is not None:
            _check_beta("Nesterov", self.beta)

    def init(self, x: Vec) -> dict[str, Tensor]:
        one = x.new_ones(x.shape[:-1])
        sequence = (
            {"beta": -one, "lambda": one, "last": torch.zeros_like(one)}
            if self.beta is None
            else {}
        )
        return {"y": x, **sequence}

    def __call__(
        self, x: Vec, step: Scalar, d: Vec, look: Look, state: State
    ) -> tuple[Vec, dict[str, Tensor]]:
        y = advance(x, step, d)
        if self.beta is not None:
            return y + self.beta * (y - state["y"]), {"y": y}
        last, now = state["lambda"], (1 + (1 + 4 * state["last"] ** 2).sqrt()) / 2
        ahead = y + scale(state["beta"], y - state["y"])
        return ahead, {"y": y, "beta": (last - 1) / now, "lambda": now, "last": last}


@dataclass(frozen=True)
class Decayed(Move):
    """Decoupled weight decay, whatever the step found, and a velocity on top (Deep Frank-Wolfe's update).

        r = weight x;  z <- beta z + eta (d - r);  x <- x - rate r + eta d + beta z

    eta is the step found, rate the longest one. With eta = rate it is Nesterov's momentum on d - r.
    """

    rate: float = 0.1
    weight: float = 0.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        _check_beta("Decayed", self.beta)
        if not (self.rate > 0 and self.weight >= 0):
            raise InputError(
                f"Decayed(rate={self.rate}, weight={self.weight}): the rate must be positive, the weight 0 or more"
            )

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"velocity": torch.zeros_like(x)}

    def __call__(
        self, x: Vec, step: Scalar, d: Vec, look: Look, state: State
    ) -> tuple[Vec, dict[str, Tensor]]:
        r = self.weight * x
        z = self.beta * state["velocity"] + scale(step, d - r)
        return advance(x, step, d) - self.rate * r + self.beta * z, {"velocity": z}


@dataclass(frozen=True)
class Extragradient(Move):
    """Use the gradient that waits at the end of the step.

        x <- x - eta grad phi(x + eta d)

    It costs one more gradient a step.
    """

    def __call__(
        self, x: Vec, step: Scalar, d: Vec, look: Look, state: State
    ) -> tuple[Vec, dict[str, Tensor]]:
        return advance(x, step, -look(advance(x, step, d))), {}


@dataclass(frozen=True)
class Stale(Move):
    """Several workers on one client share its model without locks: gradients are of snapshots that are out of date.

        x_{k+1} = x_k - eta_k grad phi(v_k),  v_k[j] = x_{k - a}[j],  a drawn from 0 ... workers - 1

    A simulation of asynchrony with bounded staleness that repeats its bits: the ages are keyed by the seed of the local step.
    With `torn` every coordinate j has its own age, a read that others write into; otherwise a snapshot is of one age.
    A search runs at the snapshot, the only point the worker knows.
    """

    workers: int = 4
    torn: bool = True

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"Stale(workers={self.workers}): at least one worker is needed")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"past": x.unsqueeze(-2).expand(*x.shape[:-1], self.workers, -1)}

    def view(self, x: Vec, seed: Tensor, state: State) -> Vec:
        if self.workers == 1:
            return x
        size = x.shape[-1:] if self.torn else (1,)
        ages = [
            torch.randint(self.workers, size, generator=generator(int(s), "age"))
            for s in seed.reshape(-1)
        ]
        index = (
            torch.stack(ages)
            .to(x.device)
            .reshape(*x.shape[:-1], 1, -1)
            .expand(*x.shape[:-1], 1, x.shape[-1])
        )
        return state["past"].gather(-2, index).squeeze(-2)

    def __call__(
        self, x: Vec, step: Scalar, d: Vec, look: Look, state: State
    ) -> tuple[Vec, dict[str, Tensor]]:
        new = advance(x, step, d)
        return new, {"past": torch.cat([new.unsqueeze(-2), state["past"][..., :-1, :]], -2)}


def _check_beta(part: str, beta: float) -> None:
    if not 0 <= beta < 1:
        raise InputError(f"{part}(beta={beta}): beta must lie in [0, 1)")
