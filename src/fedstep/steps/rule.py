"""The step slot: what a rule is given and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.vec import Scalar, State, Vec


class Ray(Protocol):
    """The function a client descends, along x + eta d."""

    def __call__(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        """Values at eta, for the given rows of the block only (None: all); no gradient is recorded."""
        ...

    def derivative(self, eta: Scalar, rows: Tensor | None) -> Scalar:
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
    def along(self, x: Vec, d: Vec) -> Ray: ...
    def slope(self, g: Vec, d: Vec) -> Scalar:
        """<g, d> for the gradient g, in whatever coordinates the client works."""
        ...

    def norm_sq(self, g: Vec) -> Scalar: ...


@dataclass(frozen=True)
class Outcome:
    """One answer per client: the step taken (0: none), what it cost, and whether the search gave up.

    A trial costs a forward pass; a slope at a trial costs another one and a backward pass.
    """

    step: Scalar
    trials: Tensor
    failed: Tensor
    slopes: Tensor | None = None  # None: none was asked for

    @staticmethod
    def free(step: Scalar) -> Outcome:
        """A step that was not searched for."""
        none = torch.zeros_like(step, dtype=torch.int64)
        return Outcome(step, none, none.bool())


class StepRule:
    """Maps the state at x (value f, gradient g, direction d) to a step size; a rule overrides what it needs.

    The state lasts for a round. With `carry` it outlives it in the client's memory; what all clients should know travels with
    the model: `shared_init`, `message` and `fold` are its way from the clients to the server and back.
    """

    carry: bool = False
    intrinsic: ClassVar[bool] = (
        False  # uses vectors through phi.slope and phi.norm_sq only, so that any coordinates serve
    )
    withheld: ClassVar[frozenset[str]] = (
        frozenset()
    )  # what of the shared state is the server's alone and not sent

    def init(self, x: Vec) -> dict[str, Tensor]:
        """The state before the client's first step, `(...)` or `(..., d)` for x of shape `(..., d)`."""
        return {}

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        """What the server sends besides the model, for a model x of shape `(d,)`."""
        return {}

    def begin(self, x: Vec, shared: State, memory: State) -> dict[str, Tensor]:
        """The state at the beginning of a round."""
        return {**self.init(x), **(memory if self.carry else {})}

    def search(
        self, phi: Phi, x: Vec, f: Scalar, g: Vec, d: Vec, state: State
    ) -> tuple[Outcome, dict[str, Tensor]]:
        """The step for this batch, and the state for the next."""
        raise NotImplementedError

    def message(self, state: State) -> dict[str, Tensor]:
        """What the client sends at the end of a round; the server sees the weighted sum over clients."""
        return {}

    def fold(self, shared: State, message: State, agg: Aggregate) -> dict[str, Tensor]:
        """What is sent in the next round, given the sums of the messages."""
        return dict(shared)
