"""From one client to a block: what every model shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Head, Output, OutputAlongLine
from fedstep.core.vec import Scalar, Vec, dot, lift, norm_sq


class NeedsRows(Exception):
    """The loss is already a mean over samples, so padded samples cannot be left out of it."""


class FlatModel(ABC):
    """A model as a function of its flat parameter vector, for one client `(d,)` or a block `(C, d)`.

    A leaf says only what one client's samples cost. Blocks are vmapped; where that is impossible (recurrent layers, dropout,
    a loss that is a mean already over batches of unequal size, data-dependent control flow) the rows are run one by one.
    Either way a client's numbers depend on its own batch and seed alone.
    """

    def __init__(self) -> None:
        self.head: Head | None = (
            None  # the last layer, where there is one behind layers with parameters
        )
        self.row_by_row = False
        self.pointwise = False  # whether `scored` gives one loss a sample, of that sample alone
        self.linear = False  # whether predictions are linear in the parameters: p(x + eta d) = p(x) + eta p(d)
        self.stochastic: bool | None = None  # found out in the first pass
        self._padding_counts: bool | None = None  # found out with the first padded block

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of parameters."""

    @abstractmethod
    def init(self) -> Vec:
        """The vector training begins at."""

    @abstractmethod
    def evaluating(self) -> FlatModel:
        """The same model without dropout and the like."""

    @abstractmethod
    def values(self, x: Vec, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Loss of each sample (or their mean), and predictions, for one client."""

    def embedding(self) -> FlatModel:
        """The same model, whose output has what enters the last layer."""
        raise InputError(
            f"{type(self).__name__} has no last layer to embed samples before: pass a torch module"
        )

    def __call__(self, x: Vec, batch: Batch) -> Output:
        if x.dim() == 1:
            return self._one(x, batch)
        if not self.row_by_row and (batch.mask is None or self._padding_counts is not True):
            try:
                out = self._block(x, batch)
                if batch.mask is None or not self._leaks(x, batch, out):
                    return out
            except NeedsRows:
                pass  # this batch only: blocks without padding still run together
            except (RuntimeError, NotImplementedError):
                self.row_by_row = (
                    True  # what is wrong for another reason is raised again below, in plain words
                )
        rows = [self._one(x[i], batch.row(i)) for i in range(len(x))]
        return Output(
            torch.stack([r.loss for r in rows]),
            embedding=_padded([r.embedding for r in rows], batch.targets.shape[1]),
        )

    def _leaks(self, x: Vec, batch: Batch, out: Output) -> bool:
        """Whether padding changes a client's loss, as in a model that mixes samples; found out once."""
        if self._padding_counts is None and batch.mask is not None:
            row = int((~batch.mask).sum(-1).argmax())
            alone = self._one(x[row].detach(), batch.row(row)).loss.detach()
            close = 1e-3 if x.dtype == torch.float32 else 1e-8
            self._padding_counts = not torch.allclose(
                out.loss[row].detach(), alone, rtol=close, atol=close, equal_nan=True
            )
        return bool(self._padding_counts)

    def enter(self, x: Vec) -> Vec:
        """Parameters in the coordinates a client works in: here the same."""
        return x

    def leave(self, u: Vec) -> Vec:
        """Parameters from a client's coordinates."""
        return u

    def slope(self, g: Vec, d: Vec, batch: Batch) -> Scalar:
        """<g, d> for a gradient g of this batch."""
        return dot(g, d)

    def norm_sq(self, g: Vec, batch: Batch) -> Scalar:
        """|g|^2 for a gradient g of this batch."""
        return norm_sq(g)

    def line(self, at_x: Output, d: Vec, batch: Batch) -> OutputAlongLine | None:
        """For a linear model one product serves all trials; the rest of a trial is elementwise."""
        if not self.linear or at_x.predictions is None:
            return None
        along = self(d, batch).predictions
        return None if along is None else LinearLine(self, at_x.predictions.detach(), along, batch)

    def scored(self, predictions: Tensor, batch: Batch) -> Tensor:
        """Loss of each sample (or their mean) from one client's predictions."""
        raise TypeError(f"{type(self).__name__} makes no predictions: it cannot be linear")

    def samples(self, x: Vec, batch: Batch) -> Tensor:
        """Loss of each sample of one client, `(B,)`, with the random numbers of every other pass of this batch."""
        with nullcontext() if self.stochastic is False else seeded(int(batch.seed), x.device):
            losses, _ = self.values(x, batch)
        if losses.dim() == 0:
            raise InputError(
                f"the loss of {type(self).__name__} is a mean already: give one that is a number a sample"
            )
        return losses.flatten(1).mean(1) if losses.dim() > 1 else losses

    def _one(self, x: Vec, batch: Batch) -> Output:
        if self.stochastic is False:
            return self._reduced(x, batch)
        with seeded(int(batch.seed), x.device):
            before = torch.get_rng_state()
            out = self._reduced(x, batch)
            if self.stochastic is None:
                self.stochastic = x.device.type != "cpu" or not torch.equal(
                    before, torch.get_rng_state()
                )
        return out

    def _block(self, x: Vec, batch: Batch) -> Output:
        def one(
            x: Vec, fields: tuple[Tensor, ...], share: Tensor, seed: Tensor, mask: Tensor | None
        ) -> tuple[Tensor, ...]:
            out = self._reduced(x, Batch(fields, share, seed, mask))
            return tuple(t for t in (out.loss, out.predictions, out.embedding) if t is not None)

        axes = (0, 0, 0, 0, None if batch.mask is None else 0)
        return Output(*torch.vmap(one, axes)(x, batch.fields, batch.share, batch.seed, batch.mask))

    def _reduced(self, x: Vec, batch: Batch) -> Output:
        losses, predictions = self.values(x, batch)
        return Output(_mean(losses, batch.mask), predictions)


@dataclass(frozen=True)
class LinearLine:
    """Predictions p + eta q, p at x and q at d."""

    model: FlatModel
    p: Tensor
    q: Tensor
    batch: Batch

    def __call__(self, eta: Scalar, rows: Tensor | None) -> Output:
        p, q, batch = (
            (self.p, self.q, self.batch)
            if rows is None
            else (self.p[rows], self.q[rows], self.batch.rows(rows))
        )
        predictions = p + lift(eta, q) * q
        if eta.dim() == 0:
            return Output(_mean(self.model.scored(predictions, batch), batch.mask), predictions)
        return Output(scored_rows(self.model, predictions, batch), predictions)


def scored_rows(model: FlatModel, predictions: Tensor, batch: Batch) -> Scalar:
    """Mean loss of each client of a block from its predictions."""
    if (
        model.pointwise
    ):  # samples do not see one another, so the clients' batches are one long batch
        long = Batch(tuple(f.flatten(0, 1) for f in batch.fields), batch.share, batch.seed)
        each = model.scored(predictions.flatten(0, 1), long)
        losses = (each.flatten(1).mean(1) if each.dim() > 1 else each).view(predictions.shape[:2])
        if batch.mask is None:
            return losses.mean(1)
        return torch.where(batch.mask, losses, torch.zeros_like(losses)).sum(1) / batch.mask.sum(1)

    def one(
        p: Tensor, fields: tuple[Tensor, ...], share: Tensor, seed: Tensor, mask: Tensor | None
    ) -> Tensor:
        return _mean(model.scored(p, Batch(fields, share, seed, mask)), mask)

    axes = (0, 0, 0, 0, None if batch.mask is None else 0)
    return torch.vmap(one, axes)(predictions, batch.fields, batch.share, batch.seed, batch.mask)


def _padded(rows: list[Tensor | None], length: int) -> Tensor | None:
    """Rows `(B_i, width)` as one block of the given length; None where there is nothing to stack."""
    real = [r for r in rows if r is not None]
    return torch.stack([pad(r, (0, 0, 0, length - len(r))) for r in real]) if real else None


def _mean(losses: Tensor, mask: Tensor | None) -> Tensor:
    """Mean over the real samples; losses may be a mean already where there is no padding."""
    if losses.dim() == 0:
        if mask is not None:
            raise NeedsRows
        return losses
    losses = losses.flatten(1).mean(1) if losses.dim() > 1 else losses
    if mask is None:
        return losses.mean()
    return torch.where(mask, losses, torch.zeros_like(losses)).sum() / mask.sum()


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Global generators set to `seed` inside, and left afterwards as they were found."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
