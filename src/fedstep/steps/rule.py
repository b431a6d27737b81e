"""The step slot: what a rule is given and what it answers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from fedstep.core.local_part import LocalPart
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


@runtime_checkable
class Parted(Phi, Protocol):
    """A client's function that tells its loss from the terms that are added to it."""

    def parted(self, x: Vec) -> tuple[Phi, Scalar, Vec]:
        """The loss alone, its value at x, and the gradient of the terms at x."""
        ...

    def rows(self, index: Tensor) -> Parted: ...


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


class StepRule(LocalPart):
    """Maps the state at x (value f, gradient g, direction d) to a step size.

    A rule defines `search` and overrides what else it needs. The state lasts for a round. With
    `carry` it outlives it in the client's memory.
    """

    carry: bool = False

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

    def factor_sent(self, shared: State) -> Scalar | None:
        """The factor of all clients' steps that the server sent, for the record.

        None: the rule has none.
        """
        return None

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
