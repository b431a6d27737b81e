"""A client's representations are drawn to the server's and away from its last ones (MOON)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context, Forward, TargetKind
from fedstep.core.vec import NewState, Vec
from fedstep.corrections.base import Correction, Finished
from fedstep.local.terms import Contrastive, Term, embedded
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Contrast(Correction):
    """Model-contrastive learning; a client remembers where its last round ended.

        client i descends f_i(x) + weight * mean over samples of
            -log(e^{s(z, z_t) / T} / (e^{s(z, z_t) / T} + e^{s(z, z_i) / T}))

    z, z_t and z_i are what enters the last layer of the model at x, at the server's point and at
    the client's last point, s the cosine. In a client's first round z_i = z_t, where the term is
    flat.
    """

    weight: float = 1.0
    temperature: float = 0.5  # smaller: only the nearer of the two embeddings counts

    embeds = True
    forwards = 2  # at the server's point and at the client's last

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise InputError(
                f"Contrast(weight={self.weight}): the weight must be 0 or more; "
                "the paper tries 0.1 to 10"
            )
        if not self.temperature > 0:
            raise InputError(
                f"Contrast(temperature={self.temperature}): must be positive; the paper uses 0.5"
            )

    def suited(self, model: Forward, targets: TargetKind) -> Contrast:
        if model.head is None:
            raise InputError(
                "contrastive learning (moon) needs a network "
                "whose last linear layer has trained layers before it"
            )
        return self

    def terms(self) -> tuple[Term, ...]:
        return (Contrastive(self.weight, self.temperature),)

    def memory_init(self, x: Vec) -> NewState:
        # at first the server's own model: both embeddings agree, and the term is flat
        return {"last": x}

    def prepare(self, ctx: Context, batch: Batch) -> NewState:
        last = ctx.memory.correction["last"]
        # once a batch, not once a trial: neither point moves during a search
        with torch.no_grad():
            at_anchor = ctx.forward(ctx.anchor.expand_as(last), batch)
            at_last = ctx.forward(last, batch)
        return {
            "embedding.server": embedded(at_anchor),
            "embedding.last": embedded(at_last),
        }

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        return Finished(x - ctx.anchor, memory={"last": x})
