"""Directions that are scaled coordinate by coordinate, for a line search to walk along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import State, Vec, lift
from fedstep.local.directions import Direction


class Moment(Protocol):
    """A running second moment of the gradient."""

    @property
    def momentum(self) -> float:
        """Memory of the first moment that the accepted step goes along; 0: along the gradient."""
        ...

    def init(self, x: Vec) -> dict[str, Tensor]: ...
    def __call__(self, square: Vec, steps: Tensor, state: State) -> tuple[Vec, dict[str, Tensor]]:
        """The moment with this squared gradient, the steps-th (from 1), and the new state."""
        ...


@dataclass(frozen=True)
class Adagrad:
    """v <- v + g^2."""

    @property
    def momentum(self) -> float:
        return 0.0

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"v": torch.zeros_like(x)}

    def __call__(self, square: Vec, steps: Tensor, state: State) -> tuple[Vec, dict[str, Tensor]]:
        v = state["v"] + square
        return v, {"v": v}


@dataclass(frozen=True)
class RMSProp:
    """v <- beta v + (1 - beta) g^2."""

    beta: float = 0.99

    def __post_init__(self) -> None:
        _check("RMSProp", beta=self.beta)

    @property
    def momentum(self) -> float:
        return 0.0

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"v": torch.zeros_like(x)}

    def __call__(self, square: Vec, steps: Tensor, state: State) -> tuple[Vec, dict[str, Tensor]]:
        v = self.beta * state["v"] + (1 - self.beta) * square
        return v, {"v": v}


@dataclass(frozen=True)
class Adam:
    """v <- beta v + (1 - beta) g^2, read as v / (1 - beta^k) in step k; m likewise with `momentum`."""

    beta: float = 0.99
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _check("Adam", beta=self.beta, momentum=self.momentum)

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"v": torch.zeros_like(x)}

    def __call__(self, square: Vec, steps: Tensor, state: State) -> tuple[Vec, dict[str, Tensor]]:
        v = self.beta * state["v"] + (1 - self.beta) * square
        return v / lift(1 - self.beta**steps, v), {"v": v}


@dataclass(frozen=True)
class AMSGrad:
    """Adam with the largest v so far in the place of v."""

    beta: float = 0.99
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _check("AMSGrad", beta=self.beta, momentum=self.momentum)

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"v": torch.zeros_like(x), "largest": torch.zeros_like(x)}

    def __call__(self, square: Vec, steps: Tensor, state: State) -> tuple[Vec, dict[str, Tensor]]:
        v = self.beta * state["v"] + (1 - self.beta) * square
        largest = torch.maximum(state["largest"], v)
        return largest / lift(1 - self.beta**steps, v), {"v": v, "largest": largest}


@dataclass(frozen=True)
class Preconditioned(Direction):
    """Scale every coordinate by its second moment; search without momentum, travel with it (AdaSLS).

        P = 1 / (sqrt(v) + eps);  search along -P g;  travel along -P m / (1 - momentum^k), m <- momentum m + (1 - momentum) g

    Armijo's right side is then f - c eta <g, P g>. With `plain` the search walks along -g instead, and only the step taken is
    scaled. Behind a momentum (or with `plain`) the step taken need not decrease the loss: it is tested along another line.
    """

    moment: Moment = Adagrad()
    eps: float = 1e-8
    plain: bool = False

    def __post_init__(self) -> None:
        if not self.eps >= 0:
            raise InputError(
                f"Preconditioned(eps={self.eps}): eps must be 0 or more; the program uses 1e-8"
            )

    def init(self, x: Vec) -> dict[str, Tensor]:
        first = {"m": torch.zeros_like(x)} if self.moment.momentum else {}
        onward = {"onward": torch.zeros_like(x)} if self.moment.momentum or self.plain else {}
        return {"steps": x.new_zeros(x.shape[:-1]), **first, **onward, **self.moment.init(x)}

    def apply(self, d: Vec, x: Vec, state: State) -> tuple[Vec, dict[str, Tensor]]:
        steps, mu = state["steps"] + 1, self.moment.momentum
        v, after = self.moment(d * d, steps, state)
        scaled = d / (v.sqrt() + self.eps)
        after["steps"], onward = steps, scaled
        if mu:
            after["m"] = mu * state["m"] + (1 - mu) * d
            onward = after["m"] / lift(1 - mu**steps, d) / (v.sqrt() + self.eps)
        if mu or self.plain:
            after["onward"] = onward
        return d if self.plain else scaled, after

    def travel(self, d: Vec, state: State) -> Vec:
        return state.get("onward", d)


@dataclass(frozen=True)
class Rescaled(Direction):
    """d / (sqrt(v) + eps), where v is what the server shares as "direction.second" (1 where it shares none).

    v is not changed in a round.
    """

    eps: float = 1e-3

    def __post_init__(self) -> None:
        if not self.eps > 0:
            raise InputError(f"Rescaled(eps={self.eps}): eps must be positive; try 0.001")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"second": torch.ones_like(x)}

    def apply(self, d: Vec, x: Vec, state: State) -> tuple[Vec, dict[str, Tensor]]:
        return d / (state["second"].sqrt() + self.eps), dict(state)


def _check(part: str, **values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < 1:
            raise InputError(f"{part}({name}={value}): {name} must lie in [0, 1)")
