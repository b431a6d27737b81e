"""What passes between the slots: batches, model outputs, and all that a client can see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from fedstep.core.exchange import ClientMemory, SharedState
from fedstep.core.vec import Scalar, State, Vec

# of a model's parameters, in the order in which they lie in the flat vector
Shapes: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Batch:
    """One mini-batch of one client, or one of each client of a block (client axis first).

    It is fixed before the search begins, seeds included: f, its gradient and every trial see the
    same samples, the same augmentation and the same dropout mask.
    """

    fields: tuple[Tensor, ...]  # (..., B, *) inputs first, targets last
    share: Scalar  # (...) batch size / the client's number of samples
    seed: Tensor  # (...) int64, for whatever is random inside the forward pass
    mask: Tensor | None = None  # (..., B) True for real samples; None: all are
    steps: Tensor | None = None  # (...) batches of the client in this round; None: not known

    @property
    def inputs(self) -> Tensor:
        return self.fields[0]

    @property
    def targets(self) -> Tensor:
        return self.fields[-1]

    def rows(self, index: Tensor) -> Batch:
        """The batches of some clients of the block."""
        fields = tuple(field[index] for field in self.fields)
        return Batch(
            fields=fields,
            share=self.share[index],
            seed=self.seed[index.to(self.seed.device)],  # they stay on the CPU
            mask=_rows_of(self.mask, index),
            steps=_rows_of(self.steps, index),
        )

    def row(self, i: int) -> Batch:
        """The batch of one client of the block, without padding."""
        fields = [field[i] for field in self.fields]
        if self.mask is not None:
            real = self.mask[i]
            fields = [field[real] for field in fields]
        # neither mask nor number of steps: both are of a block
        return Batch(
            fields=tuple(fields),
            share=self.share[i],
            seed=self.seed[i],
        )


# A batch, and which rows of the block still have one; None: all of them.
LiveBatch: TypeAlias = tuple[Batch, Tensor | None]


@dataclass(frozen=True)
class Output:
    """What a forward pass yields; predictions and embeddings where the model has them."""

    loss: Scalar  # the mean over the batch, per client
    predictions: Tensor | None = None
    embedding: Tensor | None = None  # (..., B, width) what enters the last layer, if asked for


@dataclass(frozen=True)
class Head:
    """The last layer of a network: how many numbers enter it and how many leave it."""

    width: int  # features
    classes: int  # outputs


class OutputAlongLine(Protocol):
    """A model's output along x + eta d."""

    def __call__(
        self,
        eta: Scalar,
        rows: Tensor | None,
    ) -> Output:
        """At eta, for the given rows of the block only (None: all)."""
        ...

    def among(self, active: Tensor) -> OutputAlongLine:
        """The same for those who ask only these clients of the block."""
        ...


class Forward(Protocol):
    """A model as a function of its flat parameter vector, `(d,)` or `(C, d)`."""

    @property
    def head(self) -> Head | None:
        """The last layer, where there is one behind layers with parameters."""
        ...

    @property
    def shapes(self) -> Shapes:
        """The parameters' shapes in the order of the vector; what none covers is a vector."""
        ...

    def __call__(self, x: Vec, batch: Batch) -> Output: ...
    def enter(self, x: Vec) -> Vec:
        """Parameters in the coordinates a client works in."""
        ...

    def leave(self, u: Vec) -> Vec:
        """Parameters from a client's coordinates."""
        ...

    def slope(
        self,
        g: Vec,
        d: Vec,
        batch: Batch,
    ) -> Scalar:
        """<g, d> for a gradient g of this batch."""
        ...

    def norm_sq(self, g: Vec, batch: Batch) -> Scalar: ...
    def line(
        self,
        at_x: Output,
        d: Vec,
        batch: Batch,
    ) -> OutputAlongLine | None:
        """A way along x + eta d that is cheaper than a pass a trial, given the output at x.

        None: there is none.
        """
        ...


@runtime_checkable
class Sampled(Protocol):
    """A model that gives the loss of every sample of one client."""

    def samples(self, x: Vec, batch: Batch) -> Tensor: ...


@dataclass(frozen=True)
class TargetKind:
    """What is known of the targets without having them: a server without data knows as much."""

    dtype: torch.dtype
    rank: int  # number of axes, that of the samples included

    @staticmethod
    def of(targets: Tensor) -> TargetKind:
        return TargetKind(targets.dtype, targets.dim())

    @property
    def classes(self) -> bool:
        """Whether there is one class a sample."""
        # a target with more axes is a text or a picture, with many classes a sample
        if self.dtype.is_floating_point:
            return False
        return self.rank == 1


@dataclass(frozen=True)
class Context:
    """All that a client can see in a round."""

    anchor: Vec  # (d,) the model the server sent; common to the block
    forward: Forward
    shared: SharedState = SharedState()  # what the server sent besides
    memory: ClientMemory = ClientMemory()  # kept from its earlier rounds, client axis first
    round: int = 0

    def rows(self, index: Tensor) -> Context:
        """What some clients of the block can see."""
        # anchor and shared values are common to the block: only the memory has a client axis
        memory = self.memory.take(index)
        return replace(self, memory=memory)

    def prepared(self, values: State) -> Context:
        """With values that a correction prepared for one local step, beside its memory."""
        # most corrections prepare nothing, and every local step asks
        if not values:
            return self
        correction = {**self.memory.correction, **values}
        memory = replace(self.memory, correction=correction)
        return replace(self, memory=memory)


def _rows_of(
    values: Tensor | None,
    index: Tensor,
) -> Tensor | None:
    if values is None:
        return None
    return values[index]
