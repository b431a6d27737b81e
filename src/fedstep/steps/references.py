"""The line a trial must stay below: value and slope at eta = 0.

A reference above f(x) lets a batch's loss rise now and then (nonmonotone searches). A loss that is not finite is not
remembered: one broken batch must not loosen or spoil the searches after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar, State, Vec, lift


class Reference:
    """What a trial is compared with; a reference overrides what it needs."""

    relaxes: ClassVar[bool] = (
        True  # the line has the slope <g, d> itself and lies nowhere below the one through f(x)
    )

    def init(self, x: Vec) -> dict[str, Tensor]:
        """What it remembers before the first step."""
        return {}

    def __call__(
        self, f: Scalar, slope: Scalar, state: State
    ) -> tuple[Scalar, Scalar, dict[str, Tensor]]:
        """Value and slope of the line, and the new state, given phi(x) and <g, d>."""
        raise NotImplementedError

    def after(self, gain: Scalar, state: State) -> dict[str, Tensor]:
        """The state after a search that lowered phi by `gain`."""
        return dict(state)


@dataclass(frozen=True)
class Current(Reference):
    """f(x) itself: every accepted step decreases the batch loss (monotone)."""

    def __call__(
        self, f: Scalar, slope: Scalar, state: State
    ) -> tuple[Scalar, Scalar, dict[str, Tensor]]:
        return f, slope, {}


@dataclass(frozen=True)
class Grippo(Reference):
    """The largest of f(x) and the `window` losses before it (Grippo, Lampariello and Lucidi, 1986).

        ref = max(f_k, f_{k-1}, ..., f_{k-window})

    The losses are those of the batches of the last steps. window 0 is `Current`; the classic choice is 10.
    """

    window: int = 10

    def __post_init__(self) -> None:
        if self.window < 0:
            raise InputError(
                f"Grippo(window={self.window}): the number of earlier losses must be 0 or more; try 10"
            )

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"losses": x.new_full((*x.shape[:-1], self.window), -inf)}

    def __call__(
        self, f: Scalar, slope: Scalar, state: State
    ) -> tuple[Scalar, Scalar, dict[str, Tensor]]:
        known = torch.cat([state["losses"], f.unsqueeze(-1)], -1)
        losses = (
            torch.where(lift(torch.isfinite(f), known), known[..., 1:], state["losses"])
            if self.window
            else known[..., 1:]
        )
        return known.amax(-1), slope, {"losses": losses}


@dataclass(frozen=True)
class ZhangHager(Reference):
    """A weighted mean of the losses so far, or f(x) where that is larger (Zhang and Hager, 2004).

        Q <- xi Q + 1;   C <- (xi Q_old C + f) / Q;   ref = max(C, f)

    xi 0 is `Current`, xi 1 the plain mean. On one fixed function C >= f holds by itself; losses of different batches need the
    maximum, or a hard batch could ask for more decrease than there is. This is the form of PoNoS.
    """

    xi: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.xi <= 1:
            raise InputError(f"ZhangHager(xi={self.xi}): xi must lie in [0, 1]; PoNoS uses 1")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"count": x.new_zeros(x.shape[:-1]), "mean": x.new_zeros(x.shape[:-1])}

    def __call__(
        self, f: Scalar, slope: Scalar, state: State
    ) -> tuple[Scalar, Scalar, dict[str, Tensor]]:
        old, known = self.xi * state["count"], torch.isfinite(f)
        mean = (old * state["mean"] + f) / (old + 1)
        after = {
            "count": torch.where(known, old + 1, state["count"]),
            "mean": torch.where(known, mean, state["mean"]),
        }
        return torch.maximum(mean, f), slope, after


@dataclass(frozen=True)
class Smoothed(Reference):
    """Running means of both sides of the Armijo condition (Kenneweg et al., 2024).

        accept where h >= c * eta * s
        h = beta h_old + (1 - beta) (f(x) - f(x + eta d));   s = beta s_old - (1 - beta) <g, d>

    Solved for f(x + eta d), that is the line with value f + beta h_old / (1 - beta) and slope -s / (1 - beta). Past gains
    allow a batch's loss to rise, past losses ask for more. h learns from accepted steps only. beta 0 is `Current`. For `Armijo`
    only: with a line of another slope, a step that is neither too long nor too short need not exist.
    """

    beta: float = 0.99

    relaxes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise InputError(f"Smoothed(beta={self.beta}): beta must lie in [0, 1); try 0.99")

    def init(self, x: Vec) -> dict[str, Tensor]:
        return {"gain": x.new_zeros(x.shape[:-1]), "steepness": x.new_zeros(x.shape[:-1])}

    def __call__(
        self, f: Scalar, slope: Scalar, state: State
    ) -> tuple[Scalar, Scalar, dict[str, Tensor]]:
        steepness = self.beta * state["steepness"] - (1 - self.beta) * slope
        known = torch.isfinite(f) & torch.isfinite(slope)
        after = {
            "gain": state["gain"],
            "steepness": torch.where(known, steepness, state["steepness"]),
        }
        return f + self.beta / (1 - self.beta) * state["gain"], -steepness / (1 - self.beta), after

    def after(self, gain: Scalar, state: State) -> dict[str, Tensor]:
        return {**state, "gain": self.beta * state["gain"] + (1 - self.beta) * gain}
