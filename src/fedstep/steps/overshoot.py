"""Whether clients go too far in a round, as batches see it that had no part in the way."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.errors import InputError
from fedstep.core.nested import NestedState
from fedstep.core.vec import NewState, Scalar, State, Vec
from fedstep.steps.rule import Phi


@dataclass(frozen=True)
class PathState(NestedState):
    """What a client knows of its way through the round."""

    start: Vec  # where the round began
    steps: Scalar  # how many were taken
    promised: Scalar  # sum over them of eta |<g, d>|
    ahead: Scalar  # sum over the measurements of <g, x - start>
    usual: Scalar  # sum over the measurements of promised / steps


@dataclass(frozen=True)
class Overshoot:
    """The slope of the loss along a client's way, measured after every `every`-th step.

        o = sum_k <g_k, x_k - x_0> / sum_k (E_k / k);  E_k = sum_{j < k} eta_j |<g_j, d_j>|

    o lies in [-1, 1]. Below 0 the loss still falls the way that the client has gone. Above 0 it
    rises: the client has walked past the lowest point, or has diffused up the walls of a valley.
    g_k is the gradient of the next batch, so the noise of the batches that made the way is not in
    it, and that noise is just what a search on one batch cannot see. Where a step is mere noise,
    E_k / k is what one step promises and k <g, d> what the way owes: o is the share of a promise
    that was not kept. On a parabola without noise, steps near the edge swing around the minimum,
    and after four of them nothing is left of it.
    """

    every: int = 4

    def __post_init__(self) -> None:
        if not self.every >= 1:
            raise InputError(f"Overshoot(every={self.every}): needs 1 or more; try 4")

    def init(self, x: Vec) -> NewState:
        """The state at the beginning of a round, at x."""
        zero = x.new_zeros(x.shape[:-1])
        return PathState(
            start=x,
            steps=zero,
            promised=zero,
            ahead=zero,
            usual=zero,
        ).flat()

    def seen(
        self,
        phi: Phi,
        x: Vec,
        g: Vec,
        state: State,
    ) -> NewState:
        """The state with what the gradient g at x says of the way to x."""
        path = PathState.of(state)
        due = (path.steps > 0) & (path.steps % self.every == 0)
        if not bool(due.any()):
            return dict(state)
        slope = phi.slope(g, x - path.start)
        due = due & torch.isfinite(slope)
        step = path.promised / torch.where(due, path.steps, 1.0)
        return {
            **state,
            "ahead": path.ahead + torch.where(due, slope, 0.0),
            "usual": path.usual + torch.where(due, step, 0.0),
        }

    def moved(
        self,
        step: Scalar,
        slope: Scalar,
        state: State,
    ) -> NewState:
        """The state after a step, 0 where none was taken."""
        path = PathState.of(state)
        took = step > 0
        return {
            **state,
            "steps": path.steps + took,
            "promised": path.promised + torch.where(took, step * slope.abs(), 0.0),
        }

    def message(self, state: State) -> NewState:
        """What a client reports: o, and whether it has measured it."""
        path = PathState.of(state)
        measured = path.usual > 0
        share = path.ahead / torch.where(measured, path.usual, 1.0)
        return {
            "share": torch.where(measured, share.clamp(-1.0, 1.0), 0.0),
            "measured": measured.to(share.dtype),
        }

    def received(self, message: State) -> NewState:
        """A client's report within the bounds of an honest one."""
        return {
            "share": message["share"].clamp(-1.0, 1.0),
            "measured": message["measured"].clamp(0.0, 1.0),
        }

    def mean(self, message: State) -> Scalar:
        """The mean of those clients that have measured it, 0 where nobody has."""
        measured = message["measured"]
        return message["share"] / torch.where(measured > 0, measured, 1.0)
