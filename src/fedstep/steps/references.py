"""The line a trial must stay below: value and slope at eta = 0.

A reference above f(x) lets a batch's loss rise now and then (nonmonotone searches). A loss that is
not finite is not remembered: one broken batch must not loosen or spoil the searches after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, Scalar, State, Vec, lift
from fedstep.steps.trial import ReferenceLine


class Reference(ABC):
    """What a trial is compared with."""

    # The line has the slope <g, d> itself and lies nowhere below the one through f(x).
    relaxes: ClassVar[bool] = True

    def init(self, x: Vec) -> NewState:
        """What it remembers before the first step."""
        return {}

    @abstractmethod
    def __call__(
        self,
        f: Scalar,
        slope: Scalar,
        state: State,
    ) -> tuple[ReferenceLine, NewState]:
        """The line and the new state, given phi(x) and <g, d>."""

    def after(
        self,
        gain: Scalar,
        state: State,
    ) -> NewState:
        """The state after a search that lowered phi by `gain`."""
        return dict(state)


@dataclass(frozen=True)
class Current(Reference):
    """f(x) itself: every accepted step decreases the batch loss (monotone)."""

    def __call__(
        self,
        f: Scalar,
        slope: Scalar,
        state: State,
    ) -> tuple[ReferenceLine, NewState]:
        return ReferenceLine(f, slope), {}


@dataclass(frozen=True)
class Grippo(Reference):
    """The largest of f(x) and the `window` losses before it (Grippo et al., 1986).

        ref = max(f_k, f_{k-1}, ..., f_{k-window})

    The losses are those of the batches of the last steps. window 0 is `Current`; the classic
    choice is 10.
    """

    window: int = 10  # earlier losses that count

    def __post_init__(self) -> None:
        if self.window < 0:
            raise InputError(
                f"Grippo(window={self.window}): the number of earlier losses must be 0 or more; "
                "try 10"
            )

    def init(self, x: Vec) -> NewState:
        # minus infinity is never the largest: a window that is not full yet is no special case
        return {"losses": x.new_full((*x.shape[:-1], self.window), -inf)}

    def __call__(
        self,
        f: Scalar,
        slope: Scalar,
        state: State,
    ) -> tuple[ReferenceLine, NewState]:
        earlier = state["losses"]
        losses = torch.cat([earlier, f.unsqueeze(-1)], -1)
        line = ReferenceLine(losses.amax(-1), slope)
        newest = losses[..., 1:]
        if self.window:
            known = lift(torch.isfinite(f), losses)
            newest = torch.where(known, newest, earlier)
        return line, {"losses": newest}


@dataclass(frozen=True)
class ZhangHager(Reference):
    """A weighted mean of the losses so far, or f(x) where that is larger (Zhang and Hager, 2004).

        Q <- xi Q + 1;   C <- (xi Q_old C + f) / Q;   ref = max(C, f)

    xi 0 is `Current`, xi 1 the plain mean. On one fixed function C >= f holds by itself; losses of
    different batches need the maximum, or a hard batch could ask for more decrease than there is.
    This is the form of PoNoS.
    """

    xi: float = 1.0  # weight of the past; 1: all losses alike

    def __post_init__(self) -> None:
        if not 0 <= self.xi <= 1:
            raise InputError(f"ZhangHager(xi={self.xi}): xi must lie in [0, 1]; PoNoS uses 1")

    def init(self, x: Vec) -> NewState:
        clients = x.shape[:-1]
        return {"count": x.new_zeros(clients), "mean": x.new_zeros(clients)}

    def __call__(
        self,
        f: Scalar,
        slope: Scalar,
        state: State,
    ) -> tuple[ReferenceLine, NewState]:
        discounted = self.xi * state["count"]
        mean = (discounted * state["mean"] + f) / (discounted + 1)
        known = torch.isfinite(f)
        after = {
            "count": torch.where(known, discounted + 1, state["count"]),
            "mean": torch.where(known, mean, state["mean"]),
        }
        return ReferenceLine(torch.maximum(mean, f), slope), after


@dataclass(frozen=True)
class Smoothed(Reference):
    """Running means of both sides of the Armijo condition (Kenneweg et al., 2024).

        accept where h >= c * eta * s
        h = beta h_old + (1 - beta) (f(x) - f(x + eta d));   s = beta s_old - (1 - beta) <g, d>

    Solved for f(x + eta d), that is the line with value f + beta h_old / (1 - beta) and slope -s
    / (1 - beta). Past gains allow a batch's loss to rise, past losses ask for more. h learns from
    accepted steps only. beta 0 is `Current`. For `Armijo` only: with a line of another slope, a
    step that is neither too long nor too short need not exist.
    """

    beta: float = 0.99  # memory of both means

    relaxes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise InputError(f"Smoothed(beta={self.beta}): beta must lie in [0, 1); try 0.99")

    def init(self, x: Vec) -> NewState:
        clients = x.shape[:-1]
        return {"gain": x.new_zeros(clients), "steepness": x.new_zeros(clients)}

    def __call__(
        self,
        f: Scalar,
        slope: Scalar,
        state: State,
    ) -> tuple[ReferenceLine, NewState]:
        steepness = self.beta * state["steepness"] - (1 - self.beta) * slope
        line = ReferenceLine(
            value=f + self.beta / (1 - self.beta) * state["gain"],
            slope=-steepness / (1 - self.beta),
        )
        known = torch.isfinite(f) & torch.isfinite(slope)
        after = {
            "gain": state["gain"],
            "steepness": torch.where(known, steepness, state["steepness"]),
        }
        return line, after

    def after(
        self,
        gain: Scalar,
        state: State,
    ) -> NewState:
        mean_gain = self.beta * state["gain"] + (1 - self.beta) * gain
        return {**state, "gain": mean_gain}
