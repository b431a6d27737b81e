"""A client's representations are drawn to the server's and away from its own of the last round (MOON)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context, Forward
from fedstep.core.vec import Vec
from fedstep.corrections.base import Correction
from fedstep.local.terms import Contrastive, Term, embedded
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Contrast(Correction):
    """Model-contrastive learning; a client remembers where its last round ended.

        client i descends f_i(x) + weight * mean over samples of -log(e^{s(z, z_t) / T} / (e^{s(z, z_t) / T} + e^{s(z, z_i) / T}))

    z, z_t and z_i are what enters the last layer of the model at x, at the server's point and at the client's last point, s the
    cosine. In a client's first round z_i = z_t, where the term is flat.
    """

    weight: float = 1.0
    temperature: float = 0.5

    embeds = True
    forwards = 2

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise InputError(
                f"Contrast(weight={self.weight}): the weight must be 0 or more; the paper tries 0.1 to 10"
            )
        if not self.temperature > 0:
            raise InputError(
                f"Contrast(temperature={self.temperature}): must be positive; the paper uses 0.5"
            )

    def suited(self, model: Forward, targets: Tensor) -> Contrast:
        if model.head is None:
            raise InputError(
                "contrastive learning (moon) needs a network whose last linear layer has trained layers before it"
            )
        return self

    def terms(self) -> tuple[Term, ...]:
        return (Contrastive(self.weight, self.temperature),)

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        return {"last": x}

    def prepare(self, ctx: Context, batch: Batch) -> dict[str, Tensor]:
        with torch.no_grad():
            anchor = ctx.anchor.expand_as(ctx.memory["last"])
            return {
                "embedding.server": embedded(ctx.forward(anchor, batch)),
                "embedding.last": embedded(ctx.forward(ctx.memory["last"], batch)),
            }

    def finish(
        self, ctx: Context, x: Vec, trace: Trace
    ) -> tuple[Vec, dict[str, Tensor], dict[str, Tensor]]:
        return x - ctx.anchor, {"last": x}, {}
