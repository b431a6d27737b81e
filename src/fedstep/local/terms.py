"""Which function a client descends: phi = f_i + the sum of terms.

Drift corrections are terms, never edits of the gradient, so that a line search tests the function whose slope it uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, softplus

from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context, Output
from fedstep.core.vec import Scalar, Vec, dot, norm_sq


class Term(Protocol):
    """A summand of the function that a client descends."""

    def __call__(self, x: Vec, out: Output, batch: Batch, ctx: Context) -> Scalar:
        """One summand of phi; its gradient is never written by hand."""
        ...


@dataclass(frozen=True)
class Proximal:
    """mu / 2 * |x - anchor|^2: stay near the model the server sent (FedProx)."""

    mu: float = 0.01

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise InputError(f"Proximal(mu={self.mu}): mu must be 0 or more")

    def __call__(self, x: Vec, out: Output, batch: Batch, ctx: Context) -> Scalar:
        return self.mu / 2 * norm_sq(x - ctx.anchor)


@dataclass(frozen=True)
class L2:
    """weight / 2 * |x|^2: weight decay that a line search can see."""

    weight: float = 1e-4

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise InputError(f"L2(weight={self.weight}): the weight must be 0 or more")

    def __call__(self, x: Vec, out: Output, batch: Batch, ctx: Context) -> Scalar:
        return self.weight / 2 * norm_sq(x)


@dataclass(frozen=True)
class Linear:
    """<shared[plus] - memory[minus], x>: tilt the loss by control vectors (SCAFFOLD and its kin)."""

    plus: str | None = None
    minus: str | None = None

    def __post_init__(self) -> None:
        if self.plus is None and self.minus is None:
            raise InputError(
                "Linear(): name a shared vector (plus), a memory vector (minus), or both"
            )

    def __call__(self, x: Vec, out: Output, batch: Batch, ctx: Context) -> Scalar:
        if self.minus is None:
            return dot(ctx.shared[str(self.plus)], x)
        tilt = -ctx.memory[self.minus]
        return dot(tilt if self.plus is None else ctx.shared[self.plus] + tilt, x)


def embedded(out: Output) -> Tensor:
    """What enters the model's last layer, `(..., B, width)`."""
    if out.embedding is None:
        raise InputError(
            "a term needs the model's embeddings: use model.embedding() in place of the model, as Task does"
        )
    return out.embedding


def mean_over_samples(values: Tensor, batch: Batch) -> Scalar:
    """The mean over the real samples of a batch, values of shape `(..., B)`."""
    if batch.mask is None:
        return values.mean(-1)
    return torch.where(batch.mask, values, torch.zeros_like(values)).sum(-1) / batch.mask.sum(-1)


@dataclass(frozen=True)
class Contrastive:
    """weight * -log softmax of the similarity to the server's embedding against that to the client's last (MOON).

    Both are found in the client's memory during a step, as "embedding.server" and "embedding.last".
    """

    weight: float = 1.0
    temperature: float = 0.5

    def __call__(self, x: Vec, out: Output, batch: Batch, ctx: Context) -> Scalar:
        z = embedded(out)
        towards, away = (
            cosine_similarity(z, ctx.memory[f"embedding.{k}"], -1) for k in ("server", "last")
        )
        return self.weight * mean_over_samples(softplus((away - towards) / self.temperature), batch)


@dataclass(frozen=True)
class Prototypical:
    """weight * mean squared distance of a sample's embedding to its class's prototype, 0 for a class that has none (FedProto).

    Prototypes `(classes, width)` are shared as "prototypes", whether there is one as "known".
    """

    weight: float = 1.0

    def __call__(self, x: Vec, out: Output, batch: Batch, ctx: Context) -> Scalar:
        y = batch.targets
        gap = (embedded(out) - ctx.shared["prototypes"][y]).square().mean(-1)
        return self.weight * mean_over_samples(ctx.shared["known"][y] * gap, batch)
