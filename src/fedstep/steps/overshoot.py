"""Whether clients go too far in a round, as batches see it that had no part in the way."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.errors import InputError
from fedstep.core.looks import surely_none
from fedstep.core.nested import NestedState
from fedstep.core.vec import NewState, Scalar, State, Vec, dot, lift


@dataclass(frozen=True)
class PathState(NestedState):
    """What a client knows of its way through the round."""

    start: Vec  # where the round began
    first: Vec  # the gradient there
    steps: Scalar  # how many were taken
    ahead: Scalar  # sum over the measurements of <g, x - start>
    behind: Scalar  # sum over the measurements of -<first, x - start>


@dataclass(frozen=True)
class Overshoot:
    """The slope of the loss along a client's way, measured after every `every`-th step.

        o = sum_k <g_k, x_k - x_0> / sum_k -<g_0, x_k - x_0>,  k = every, 2 every, ...

    The slope at the end of the way, as a share of the slope at its beginning; o lies in [-1, 1].
    Below 0 the loss still falls the way that the client has gone. Above 0 it rises: the client has
    walked past the lowest point, or has diffused up the walls of a valley. g_k is the gradient of
    the next batch, so the noise of the batches that made the way is not in it, and that noise is
    just what a search on one batch cannot see. On a parabola without noise, steps near the edge
    swing around the minimum, and after four of them nothing is left of it.
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
            first=torch.zeros_like(x),
            steps=zero,
            ahead=zero,
            behind=zero,
        ).flat()

    def seen(
        self,
        x: Vec,
        g: Vec,
        state: State,
    ) -> NewState:
        """The state with what the gradient g at x says of the way to x."""
        path = PathState.of(state)
        begins = path.steps == 0
        due = ~begins & (path.steps % self.every == 0)
        after = dict(state)
        if not surely_none(begins):
            after["first"] = torch.where(lift(begins, g), g, path.first)
        if not surely_none(due):
            way = x - path.start
            ahead = dot(g, way)
            behind = -dot(path.first, way)
            due = due & torch.isfinite(ahead) & torch.isfinite(behind)
            after["ahead"] = path.ahead + torch.where(due, ahead, 0.0)
            after["behind"] = path.behind + torch.where(due, behind, 0.0)
        return after

    def moved(self, step: Scalar, state: State) -> NewState:
        """The state after a step, 0 where none was taken."""
        return {**state, "steps": state["steps"] + (step > 0)}

    def message(self, state: State) -> NewState:
        """What a client reports: o, and whether it has measured it."""
        path = PathState.of(state)
        # a first batch that points the other way is no measure
        measured = path.behind > 0
        share = path.ahead / torch.where(measured, path.behind, 1.0)
        # here too, not only in `received`: a secure sum shows the server no single report
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
