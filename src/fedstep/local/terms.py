"""Which function a client descends: phi = f_i + the sum of terms.

Drift corrections are terms, never edits of the gradient, so that a line search tests the function
whose slope it uses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, softplus

from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context, Output
from fedstep.core.vec import Scalar, Vec, dot, norm_sq


class Term(ABC):
    """A summand of the function that a client descends; its gradient is never written by hand."""

    @abstractmethod
    def __call__(
        self,
        x: Vec,
        out: Output,
        batch: Batch,
        ctx: Context,
    ) -> Scalar:
        """Its value at x, per client, given the model's output there."""


@dataclass(frozen=True)
class Proximal(Term):
    """mu / 2 * |x - anchor|^2: stay near the model the server sent (FedProx)."""

    mu: float = 0.01  # 1 / gamma of a proximal point

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise InputError(f"Proximal(mu={self.mu}): mu must be 0 or more")

    def __call__(
        self,
        x: Vec,
        out: Output,
        batch: Batch,
        ctx: Context,
    ) -> Scalar:
        return self.mu / 2 * norm_sq(x - ctx.anchor)


@dataclass(frozen=True)
class L2(Term):
    """weight / 2 * |x|^2: weight decay that a line search can see."""

    weight: float = 1e-4

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise InputError(f"L2(weight={self.weight}): the weight must be 0 or more")

    def __call__(
        self,
        x: Vec,
        out: Output,
        batch: Batch,
        ctx: Context,
    ) -> Scalar:
        return self.weight / 2 * norm_sq(x)


@dataclass(frozen=True)
class Linear(Term):
    """<shared[plus] - memory[minus], x>: tilt the loss by control vectors (SCAFFOLD and its kin).

    Both name vectors of the correction, in its shared state and in the client's memory; `times`
    names a number in the client's memory by which the tilt is multiplied.
    """

    plus: str | None = None  # added, from the shared state
    minus: str | None = None  # taken away, from the client's memory
    times: str | None = None  # a factor, from the client's memory

    def __post_init__(self) -> None:
        if self.plus is None and self.minus is None:
            raise InputError(
                "Linear(): name a shared vector (plus), a memory vector (minus), or both"
            )

    def __call__(
        self,
        x: Vec,
        out: Output,
        batch: Batch,
        ctx: Context,
    ) -> Scalar:
        value = dot(self._tilt(ctx), x)
        if self.times is None:
            return value
        return ctx.memory.correction[self.times] * value

    def _tilt(self, ctx: Context) -> Vec:
        if self.minus is None:
            return ctx.shared.correction[str(self.plus)]
        tilt = -ctx.memory.correction[self.minus]
        if self.plus is not None:
            tilt = ctx.shared.correction[self.plus] + tilt
        return tilt


def embedded(out: Output) -> Tensor:
    """What enters the model's last layer, `(..., B, width)`."""
    # embeddings are kept only where somebody wants them: they are as large as the activations
    if out.embedding is None:
        raise InputError(
            "a term needs the model's embeddings: "
            "use model.embedding() in place of the model, as Task does"
        )
    return out.embedding


def mean_over_samples(values: Tensor, batch: Batch) -> Scalar:
    """The mean over the real samples of a batch, values of shape `(..., B)`."""
    if batch.mask is None:
        return values.mean(-1)
    # where, not a product with the mask: padding may have a value that is not finite
    real = torch.where(batch.mask, values, torch.zeros_like(values))
    return real.sum(-1) / batch.mask.sum(-1)


@dataclass(frozen=True)
class Contrastive(Term):
    """Similar to the server's embedding rather than to the client's last (MOON).

        weight * mean over samples of -log softmax of the similarities

    Both are found in the client's memory during a step, as "embedding.server" and "embedding.last".
    """

    weight: float = 1.0
    temperature: float = 0.5

    def __call__(
        self,
        x: Vec,
        out: Output,
        batch: Batch,
        ctx: Context,
    ) -> Scalar:
        z = embedded(out)
        towards = cosine_similarity(z, ctx.memory.correction["embedding.server"], -1)
        away = cosine_similarity(z, ctx.memory.correction["embedding.last"], -1)
        # log(1 + e^s) in place of the logarithm of a quotient, which overflows for a small T
        each = softplus((away - towards) / self.temperature)
        return self.weight * mean_over_samples(each, batch)


@dataclass(frozen=True)
class Prototypical(Term):
    """Near the prototype of one's class (FedProto).

        weight * mean over samples of |embedding - prototype of the class|^2 / width

    0 for a class that has none. Prototypes `(classes, width)` are shared as "prototypes", whether
    there is one as "known".
    """

    weight: float = 1.0

    def __call__(
        self,
        x: Vec,
        out: Output,
        batch: Batch,
        ctx: Context,
    ) -> Scalar:
        label = batch.targets
        prototype = ctx.shared.correction["prototypes"][label]
        known = ctx.shared.correction["known"][label]
        gap = (embedded(out) - prototype).square().mean(-1)
        return self.weight * mean_over_samples(known * gap, batch)


def check_terms(owner: str, terms: object) -> None:
    """Refuse what is not a tuple of terms: it would break in the middle of a run."""
    if isinstance(terms, Term):
        name = type(terms).__name__
        raise InputError(f"{owner}(terms={terms!r}): give a tuple, as in terms=({name}(...),)")
    if not isinstance(terms, tuple):
        shown = getattr(terms, "__name__", repr(terms))
        raise InputError(f"{owner}(terms={shown}): give a tuple of terms such as (Proximal(),)")
    for term in terms:
        if isinstance(term, type) and issubclass(term, Term):
            name = term.__name__
            raise InputError(f"{owner}(terms=({name},)): {name} is a class; write {name}()")
        if not isinstance(term, Term):
            raise InputError(f"{owner}(terms=({term!r},)): give terms such as Proximal()")
