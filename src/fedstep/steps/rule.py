"""The step slot: what a rule is given and what it answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.vec import NewState, Scalar, State, Vec


class ObjectiveAlongLine(Protocol):
    """The function a client descends, along x + eta d."""

    def __call__(
        self,
        eta: Scalar,
        rows: Tensor | None,
    ) -> Scalar:
        """Values at eta, for the given rows of the block only (None: all).

        No gradient is recorded.
        """
        ...

    def derivative(
        self,
        eta: Scalar,
        rows: Tensor | None,
    ) -> Scalar:
        """Slopes <grad phi(x + eta d), d> at eta: a forward and a backward pass."""
        ...


class Phi(Protocol):
    """The function a client descends on the batch at hand."""

    @property
    def round(self) -> int: ...

    @property
    def share(self) -> Scalar: ...

    @property
    def steps(self) -> Scalar:
        """How many local steps the client takes in this round."""
        ...

    def __call__(self, x: Vec) -> Scalar: ...

    def along(
        self,
        x: Vec,
        d: Vec,
    ) -> ObjectiveAlongLine: ...

    def slope(
        self,
        g: Vec,
        d: Vec,
    ) -> Scalar:
        """<g, d> for the gradient g, in whatever coordinates the client works."""
        ...

    def norm_sq(self, g: Vec) -> Scalar: ...


class PassCounter(Protocol):
    """Where passes are counted that are neither a step's gradient nor a trial's value."""

    def add(
        self,
        clients: int,
        forwards: int,
        backwards: int,
    ) -> None: ...


@runtime_checkable
class Differentiable(Phi, Protocol):
    """A client's function that gives its gradient anywhere."""

    @property
    def work(self) -> PassCounter: ...

    def rows(self, index: Tensor) -> Differentiable: ...

    def gradient(self, x: Vec) -> tuple[Scalar, Vec]: ...


@dataclass(frozen=True)
class Outcome:
    """One answer per client: the step taken (0: none), its cost, and whether the search gave up.

    A trial costs a forward pass; a slope at a trial costs another one and a backward pass.
    """

    step: Scalar  # taken, 0: none
    trials: Tensor  # forward passes
    failed: Tensor  # whether nothing good was there
    slopes: Tensor | None = None  # None: none was asked for

    @staticmethod
    def free(step: Scalar) -> Outcome:
        """A step that was not searched for."""
        no_trials = torch.zeros_like(step, dtype=torch.int64)
        return Outcome(step, trials=no_trials, failed=no_trials.bool())


class StepRule(ABC):
    """Maps the state at x (value f, gradient g, direction d) to a step size.

    A rule defines `search` and overrides what else it needs. The state lasts for a round. With
    `carry` it outlives it in the client's memory; what all clients should know travels with the
    model: `shared_init`, `message` and `fold` are its way from the clients to the server and back.
    """

    carry: bool = False

    # Uses vectors through phi.slope and phi.norm_sq only, so that any coordinates serve.
    intrinsic: ClassVar[bool] = False

    # What of the shared state is the server's alone and not sent.
    withheld: ClassVar[frozenset[str]] = frozenset()

    def init(self, x: Vec) -> NewState:
        """The state before the client's first step, `(...)` or `(..., d)` for x `(..., d)`."""
        return {}

    def shared_init(self, x: Vec) -> NewState:
        """What the server sends besides the model, for a model x of shape `(d,)`."""
        return {}

    def begin(
        self,
        x: Vec,
        shared: State,
        memory: State,
    ) -> NewState:
        """The state at the beginning of a round."""
        state = self.init(x)
        if self.carry:
            state |= memory
        return state

    @abstractmethod
    def search(
        self,
        phi: Phi,
        x: Vec,
        f: Scalar,
        g: Vec,
        d: Vec,
        state: State,
    ) -> tuple[Outcome, NewState]:
        """The step for this batch, and the state for the next."""

    def message(self, state: State) -> NewState:
        """What the client sends at the end of a round; the server sees the weighted sum."""
        return {}

    def received(
        self,
        message: State,
        shared: State,
    ) -> State:
        """A client's message as the server counts it, given what it was sent.

        What no honest client would say is brought back into its bounds here: the sum cannot tell.
        """
        return message

    def fold(
        self,
        shared: State,
        message: State,
        agg: Aggregate,
    ) -> NewState:
        """What is sent in the next round, given the sums of the messages."""
        return dict(shared)
