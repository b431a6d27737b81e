"""From one client to a block: what every model shares."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Head, Output, OutputAlongLine, Shapes
from fedstep.core.vec import Scalar, Vec, dot, norm_sq
from fedstep.models.linear_line import LazyLine
from fedstep.models.means import (
    NeedsRows,
    counted_mean,
    counted_sums,
    mean_loss,
    sample_losses,
)
from fedstep.models.seeded import seeded
from fedstep.models.traits import ModelTraits, find_traits, padding_counts


class FlatModel(ABC):
    """A model as a function of its flat parameter vector, for one client `(d,)` or a block `(C, d)`.

    A leaf says only what one client's samples cost. Blocks are vmapped; where that is impossible
    (recurrent layers, dropout, a loss that is a mean already over batches of unequal size,
    data-dependent control flow) the rows are run one by one. Either way a client's numbers depend
    on its own batch and seed alone.
    """

    def __init__(self) -> None:
        # the last layer, where there is one behind layers with parameters
        self.head: Head | None = None
        # of the parameters, in the order of the vector; what none covers is a vector
        self.shapes: Shapes = ()
        # whether `scored` gives one loss a sample, of that sample alone
        self.pointwise = False
        # whether predictions are linear in the parameters: p(x + eta d) = p(x) + eta p(d)
        self.linear = False
        # whether some targets count for nothing (padding); `counting` sets it
        self.ignores_targets = False
        # what `examined` found out; without it every call takes the careful way
        self.traits: ModelTraits | None = None

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of parameters."""

    @abstractmethod
    def init(self) -> Vec:
        """The vector training begins at."""

    @abstractmethod
    def starting_at(self, x: Vec) -> Self:
        """The same model, whose training begins at x."""

    def on(self, device: torch.device) -> Self:
        """The same model on another device."""
        raise InputError(f"{type(self).__name__} cannot be moved to {device}: leave `device` out")

    @abstractmethod
    def evaluating(self) -> FlatModel:
        """The same model without dropout and the like."""

    @abstractmethod
    def values(self, x: Vec, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Loss of each sample (or their mean), and predictions, for one client."""

    def targets(self, batch: Batch) -> Tensor:
        """What the predictions of a batch are compared with."""
        return batch.targets

    def scores(self, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Scores with classes on axis 1, and labels: what metrics of classes see."""
        return predictions, targets

    def counting(self, targets: Tensor | None) -> Self:
        """The same model, which leaves out ignored targets where these have some.

        None: they are not known before they are read. Here nothing is ever ignored.
        """
        return self

    def counted(self, batch: Batch) -> Tensor | None:
        """Which targets count; None: all."""
        return None

    def embedding(self) -> FlatModel:
        """The same model, whose output has what enters the last layer."""
        raise InputError(
            f"{type(self).__name__} has no last layer to embed samples before: pass a torch module"
        )

    def examined(self, batch: Batch) -> Self:
        """The same model with its traits, found out on a small batch of one client.

        Done once, before the first round, and pickled with the model. Were the traits learnt on
        the way, two workers that begin with other clients could come to other ways of computing,
        and so to other bits.
        """
        if self.traits is not None:
            return self
        # a twin, so that a model of the user's can be examined on other data another time
        twin = copy.copy(self)
        twin.traits = find_traits(self, batch)
        return twin

    def __call__(self, x: Vec, batch: Batch) -> Output:
        if x.dim() == 1:
            return self.one(x, batch)
        # the quick way first: whatever stands in its way is found out, not declared by the user
        together = self._together(x, batch)
        if together is not None:
            return together
        return self._row_by_row(x, batch)

    def enter(self, x: Vec) -> Vec:
        """Parameters in the coordinates a client works in: here the same."""
        return x

    def leave(self, u: Vec) -> Vec:
        """Parameters from a client's coordinates."""
        return u

    def slope(
        self,
        g: Vec,
        d: Vec,
        batch: Batch,
    ) -> Scalar:
        """<g, d> for a gradient g of this batch."""
        return dot(g, d)

    def norm_sq(self, g: Vec, batch: Batch) -> Scalar:
        """|g|^2 for a gradient g of this batch."""
        return norm_sq(g)

    def line(
        self,
        at_x: Output,
        d: Vec,
        batch: Batch,
    ) -> OutputAlongLine | None:
        """For a linear model one product serves all trials; the rest of a trial is elementwise."""
        if not self.linear or at_x.predictions is None:
            return None
        return LazyLine(
            self,
            self.predicted,
            at_x.predictions.detach(),
            d,
            batch,
        )

    def predicted(self, x: Vec, batch: Batch) -> Tensor:
        """The predictions of a linear model, without their losses where that is less work."""
        predictions = self(x, batch).predictions
        assert predictions is not None, "a linear model predicts"
        return predictions

    def scored(self, predictions: Tensor, batch: Batch) -> Tensor:
        """Loss of each sample (or their mean) from one client's predictions."""
        raise TypeError(f"{type(self).__name__} makes no predictions: it cannot be linear")

    def samples(self, x: Vec, batch: Batch) -> Tensor:
        """Loss of each sample of one client, `(B,)`.

        With the random numbers of every other pass of this batch.
        """
        with self._random_numbers(x, batch):
            losses, _ = self.values(x, batch)
        # a mean cannot be taken apart again
        if losses.dim() == 0:
            raise InputError(
                f"the loss of {type(self).__name__} is a mean already: "
                "give one that is a number a sample"
            )
        counted = self.counted(batch)
        if counted is None:
            return sample_losses(losses)
        sums, counts = counted_sums(losses, counted)
        return sums / counts.clamp(min=1)

    def one(self, x: Vec, batch: Batch) -> Output:
        """The output for one client."""
        with self._random_numbers(x, batch):
            return self._reduced(x, batch)

    def block(self, x: Vec, batch: Batch) -> Output:
        """The output for a block by one vmapped pass; raises where the model does not allow it."""

        masks: tuple[Tensor, ...] = ()
        if batch.mask is not None:
            masks = (batch.mask,)

        # no tuple among the arguments: vmap goes through nested ones in Python, several times
        def one(x: Vec, share: Tensor, seed: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
            fields = rest[: len(batch.fields)]
            mask = None
            if masks:
                mask = rest[-1]
            out = self._reduced(x, Batch(fields, share, seed, mask))
            # vmap knows tensors only: what is absent is left out, and is absent at the end
            return tuple(t for t in (out.loss, out.predictions, out.embedding) if t is not None)

        over_clients = torch.vmap(one)
        return Output(*over_clients(x, batch.share, batch.seed, *batch.fields, *masks))

    def _together(self, x: Vec, batch: Batch) -> Output | None:
        """The block in one pass, or None where its rows have to be run one by one."""
        if not self._may_run_together(batch):
            return None
        try:
            out = self.block(x, batch)
        except (NeedsRows, RuntimeError, NotImplementedError):
            # what is wrong for another reason is raised again row by row, in plain words
            return None
        if (
            self.traits is None
            and batch.mask is not None
            and padding_counts(
                self,
                x,
                batch,
                out,
            )
        ):
            return None
        return out

    def _may_run_together(self, batch: Batch) -> bool:
        if self.traits is None:
            return True
        # this batch only: blocks without padding still run together
        if batch.mask is not None and not self.traits.padding:
            return False
        return self.traits.blocks

    def _row_by_row(self, x: Vec, batch: Batch) -> Output:
        # without padding: a row must give what its client alone would give
        rows = [self.one(x[i], batch.row(i)) for i in range(len(x))]
        losses = torch.stack([row.loss for row in rows])
        embeddings = [row.embedding for row in rows]
        return Output(losses, embedding=_padded(embeddings, batch.targets.shape[1]))

    def _random_numbers(self, x: Vec, batch: Batch) -> AbstractContextManager[None]:
        # saving and setting the global generators costs more than a small model's pass
        if self.traits is not None and not self.traits.random:
            return nullcontext()
        return seeded(int(batch.seed), x.device)

    def _reduced(self, x: Vec, batch: Batch) -> Output:
        losses, predictions = self.values(x, batch)
        counted = self.counted(batch)
        if counted is None:
            return Output(mean_loss(losses, batch.mask), predictions)
        return Output(counted_mean(losses, counted, batch.mask), predictions)


def _padded(rows: list[Tensor | None], length: int) -> Tensor | None:
    """Rows `(B_i, width)` as one block of the given length; None where there is nothing to stack."""
    padded = []
    for row in rows:
        if row is not None:
            padded.append(pad(row, (0, 0, 0, length - len(row))))
    if not padded:
        return None
    return torch.stack(padded)
