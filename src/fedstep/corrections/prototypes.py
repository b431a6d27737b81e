"""Clients agree on what a class looks like: on the mean of its samples before the last layer (FedProto)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context, Forward, Head, Output
from fedstep.core.vec import State, Vec, lift
from fedstep.corrections.base import Correction
from fedstep.local.terms import Prototypical, Term, embedded
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Prototypes(Correction):
    """Sums of embeddings per class go up, their means come down.

        client i descends f_i(x) + weight * mean over samples of |z - P_y|^2 / width;  P_y = mean of all z of class y sent last

    z is what enters the last layer in the local steps, y the label; the term of a class without a prototype is 0, and a class
    that nobody met in a round keeps its prototype. `personal`: a client goes on from its own model and never reads the
    server's, which is the mean of the models of the round's clients and serves for evaluation only. `head` is filled in by
    the model.
    """

    weight: float = 1.0
    personal: bool = True
    head: Head | None = None

    embeds = True

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise InputError(
                f"Prototypes(weight={self.weight}): the weight must be 0 or more; the paper uses 1"
            )

    def suited(self, model: Forward, targets: Tensor) -> Prototypes:
        if model.head is None:
            raise InputError(
                "prototypes (fedproto) need a network whose last linear layer has trained layers before it"
            )
        if targets.is_floating_point() or targets.dim() != 1:
            raise InputError(
                "prototypes (fedproto) need one class a sample: targets that are integers"
            )
        return replace(self, head=model.head)

    @property
    def sizes(self) -> Head:
        """The sizes of the model's last layer."""
        if self.head is None:
            raise InputError(
                "Prototypes(head=None): call suited(model, targets) first, as Task does"
            )
        return self.head

    def terms(self) -> tuple[Term, ...]:
        return (Prototypical(self.weight),)

    def shared_init(self, x: Vec) -> dict[str, Tensor]:
        classes = self.sizes.classes
        return {"prototypes": x.new_zeros(classes, self.sizes.width), "known": x.new_zeros(classes)}

    def memory_init(self, x: Vec) -> dict[str, Tensor]:
        return {"own": x} if self.personal else {}

    def start(self, ctx: Context) -> Vec:
        return ctx.memory["own"] if self.personal else ctx.anchor

    def tally(self, x: Vec) -> dict[str, Tensor]:
        shape = (*x.shape[:-1], self.sizes.classes)
        return {"prototypes": x.new_zeros(*shape, self.sizes.width), "known": x.new_zeros(shape)}

    def count(self, out: Output, batch: Batch) -> dict[str, Tensor]:
        z = embedded(out).detach()
        classes = torch.arange(self.sizes.classes, device=z.device)
        member = (batch.targets.unsqueeze(-1) == classes).to(z.dtype)  # (..., B, classes)
        member = member if batch.mask is None else member * batch.mask.unsqueeze(-1)
        return {"prototypes": member.transpose(-1, -2) @ z, "known": member.sum(-2)}

    def finish(
        self, ctx: Context, x: Vec, trace: Trace
    ) -> tuple[Vec, dict[str, Tensor], dict[str, Tensor]]:
        return x - ctx.anchor, {"own": x} if self.personal else {}, {}

    def fold(self, shared: State, agg: Aggregate, fraction: float) -> tuple[Vec, dict[str, Tensor]]:
        total, number = agg.message["prototypes"], agg.message["known"]
        met = number > 0
        means = total / lift(torch.where(met, number, 1.0), total)
        prototypes = torch.where(lift(met, total), means, shared["prototypes"])
        known = torch.where(met, torch.ones_like(number), shared["known"])
        return agg.mean(agg.delta), {**shared, "prototypes": prototypes, "known": known}
