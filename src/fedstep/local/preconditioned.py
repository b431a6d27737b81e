"""Directions that are scaled coordinate by coordinate, for a line search to walk along."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.slots import check_slots
from fedstep.core.vec import NewState, State, Vec, lift
from fedstep.local.directions import Direction


class Moment(ABC):
    """A running second moment of the gradient."""

    @property
    def momentum(self) -> float:
        """Memory of the first moment that the accepted step goes along; 0: along the gradient."""
        return 0.0

    def init(self, x: Vec) -> NewState:
        """The state before the first gradient."""
        return {"v": torch.zeros_like(x)}

    @abstractmethod
    def __call__(
        self,
        square: Vec,
        steps: Tensor,
        state: State,
    ) -> tuple[Vec, NewState]:
        """The moment with this squared gradient, the steps-th (from 1), and the new state."""


@dataclass(frozen=True)
class Adagrad(Moment):
    """v <- v + g^2."""

    def __call__(
        self,
        square: Vec,
        steps: Tensor,
        state: State,
    ) -> tuple[Vec, NewState]:
        v = state["v"] + square
        return v, {"v": v}


@dataclass(frozen=True)
class RMSProp(Moment):
    """v <- beta v + (1 - beta) g^2."""

    beta: float = 0.99

    def __post_init__(self) -> None:
        _check("RMSProp", beta=self.beta)

    def __call__(
        self,
        square: Vec,
        steps: Tensor,
        state: State,
    ) -> tuple[Vec, NewState]:
        v = self.beta * state["v"] + (1 - self.beta) * square
        return v, {"v": v}


@dataclass(frozen=True)
class Adam(Moment):
    """v <- beta v + (1 - beta) g^2, read as v / (1 - beta^k) in step k; m likewise."""

    beta: float = 0.99
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _check(
            "Adam",
            beta=self.beta,
            momentum=self.momentum,
        )

    def __call__(
        self,
        square: Vec,
        steps: Tensor,
        state: State,
    ) -> tuple[Vec, NewState]:
        v = self.beta * state["v"] + (1 - self.beta) * square
        unbiased = v / lift(1 - self.beta**steps, v)
        return unbiased, {"v": v}


@dataclass(frozen=True)
class AMSGrad(Moment):
    """Adam with the largest v so far in the place of v."""

    beta: float = 0.99
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _check(
            "AMSGrad",
            beta=self.beta,
            momentum=self.momentum,
        )

    def init(self, x: Vec) -> NewState:
        return {
            "v": torch.zeros_like(x),
            "largest": torch.zeros_like(x),
        }

    def __call__(
        self,
        square: Vec,
        steps: Tensor,
        state: State,
    ) -> tuple[Vec, NewState]:
        v = self.beta * state["v"] + (1 - self.beta) * square
        # the maximum of the raw moments, corrected afterwards, as torch's AMSGrad
        largest = torch.maximum(state["largest"], v)
        unbiased = largest / lift(1 - self.beta**steps, v)
        return unbiased, {"v": v, "largest": largest}


@dataclass(frozen=True)
class Preconditioned(Direction):
    """Scale coordinates by their second moment; search without momentum, travel with it (AdaSLS).

        P = 1 / (sqrt(v) + eps);  search along -P g;  travel along -P m / (1 - momentum^k)
        m <- momentum m + (1 - momentum) g

    Armijo's right side is then f - c eta <g, P g>. With `plain` the search walks along -g instead,
    and only the step taken is scaled. Behind a momentum (or with `plain`) the step taken need not
    decrease the loss: it is tested along another line.
    """

    moment: Moment = Adagrad()
    eps: float = 1e-8  # the AdaSLS program's
    plain: bool = False  # the program's `pp_lipschitz`

    def __post_init__(self) -> None:
        check_slots(self, moment=Moment)
        if not self.eps >= 0:
            raise InputError(
                f"Preconditioned(eps={self.eps}): eps must be 0 or more; the program uses 1e-8"
            )

    @property
    def _travels_another_way(self) -> bool:
        return bool(self.moment.momentum) or self.plain

    def init(self, x: Vec) -> NewState:
        state = {"steps": x.new_zeros(x.shape[:-1])}
        if self.moment.momentum:
            state["m"] = torch.zeros_like(x)
        if self._travels_another_way:
            state["onward"] = torch.zeros_like(x)
        return state | self.moment.init(x)

    def apply(
        self,
        d: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        steps = state["steps"] + 1
        momentum = self.moment.momentum
        v, after = self.moment(d * d, steps, state)
        scaled = d / (v.sqrt() + self.eps)
        onward = scaled
        # counted per client: rows of a block may have taken different numbers of steps
        after["steps"] = steps
        if momentum:
            # the momentum is behind the search: along it the batch's loss need not fall
            m = momentum * state["m"] + (1 - momentum) * d
            unbiased = m / lift(1 - momentum**steps, d)
            onward = unbiased / (v.sqrt() + self.eps)
            after["m"] = m
        if self._travels_another_way:
            after["onward"] = onward
        if self.plain:
            return d, after
        return scaled, after

    def travel(self, d: Vec, state: State) -> Vec:
        return state.get("onward", d)


@dataclass(frozen=True)
class Rescaled(Direction):
    """d / (sqrt(v) + eps), where the server sends v (1 where it sends none).

    v is not changed in a round.
    """

    eps: float = 1e-3  # v begins at 1, so eps matters only where gradients vanish

    def __post_init__(self) -> None:
        if not self.eps > 0:
            raise InputError(f"Rescaled(eps={self.eps}): eps must be positive; try 0.001")

    def init(self, x: Vec) -> NewState:
        return {"second": torch.ones_like(x)}

    def begin(self, x: Vec, sent: State) -> NewState:
        # a mixture may pair this direction with a correction that sends nothing for it
        if "second" not in sent:
            return self.init(x)
        return {"second": sent["second"].expand_as(x)}

    def apply(
        self,
        d: Vec,
        x: Vec,
        state: State,
    ) -> tuple[Vec, NewState]:
        below = state["second"].sqrt() + self.eps
        return d / below, dict(state)


def _check(part: str, **values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < 1:
            raise InputError(f"{part}({name}={value}): {name} must lie in [0, 1)")
