"""Clients agree on what a class looks like, on the mean of its embeddings (FedProto)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fedstep.core.aggregate import Aggregate
from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Context, Forward, Head, Output, TargetKind
from fedstep.core.vec import NewState, State, Vec, lift
from fedstep.corrections.base import Correction, Finished
from fedstep.local.terms import Prototypical, Term, embedded
from fedstep.local.trace import Trace


@dataclass(frozen=True)
class Prototypes(Correction):
    """Sums of embeddings per class go up, their means come down.

        client i descends f_i(x) + weight * mean over samples of |z - P_y|^2 / width
        P_y = mean of all z of class y sent last

    z is what enters the last layer in the local steps, y the label; the term of a class without a
    prototype is 0, and a class that nobody met in a round keeps its prototype. `personal`: a client
    begins with the run's first model, whenever it joins, goes on from its own and never reads the
    server's, which is the mean of the models of the round's clients and serves for evaluation only.
    `head` is filled in by the model.
    """

    weight: float = 1.0
    personal: bool = True  # the paper's: no client reads the averaged model
    head: Head | None = None  # filled in by `suited`

    embeds = True

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise InputError(
                f"Prototypes(weight={self.weight}): the weight must be 0 or more; the paper uses 1"
            )

    def suited(self, model: Forward, targets: TargetKind) -> Prototypes:
        if model.head is None:
            raise InputError(
                "prototypes (fedproto) need a network "
                "whose last linear layer has trained layers before it"
            )
        if not targets.classes:
            raise InputError(
                "prototypes (fedproto) need one class a sample: targets that are integers"
            )
        # the sizes are the model's, so a method can be named before there is one
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

    def shared_init(self, x: Vec) -> NewState:
        if not self.personal:
            return self.tally(x)
        return {**self.tally(x), "first": x}

    def memory_init(self, x: Vec) -> NewState:
        if not self.personal:
            return {}
        # how far from the first model: x is the server's of the round in which the client joins
        return {"gone": torch.zeros_like(x)}

    def start(self, ctx: Context) -> Vec:
        if not self.personal:
            return ctx.anchor
        return ctx.shared.correction["first"] + ctx.memory.correction["gone"]

    def tally(self, x: Vec) -> NewState:
        shape = (*x.shape[:-1], self.sizes.classes)
        return {
            "prototypes": x.new_zeros(*shape, self.sizes.width),
            "known": x.new_zeros(shape),
        }

    def count(self, out: Output, batch: Batch) -> NewState:
        # embeddings of the point before the step: they are there already, and cost no pass
        z = embedded(out).detach()
        classes = torch.arange(self.sizes.classes, device=z.device)
        member = (batch.targets.unsqueeze(-1) == classes).to(z.dtype)  # (..., B, classes)
        if batch.mask is not None:
            member = member * batch.mask.unsqueeze(-1)
        return {
            "prototypes": member.transpose(-1, -2) @ z,
            "known": member.sum(-2),
        }

    def finish(self, ctx: Context, x: Vec, trace: Trace) -> Finished:
        delta = x - ctx.anchor
        if not self.personal:
            return Finished(delta)
        return Finished(delta, memory={"gone": x - ctx.shared.correction["first"]})

    def fold(
        self,
        shared: State,
        agg: Aggregate,
        fraction: float,
    ) -> tuple[Vec, NewState]:
        total = agg.message["prototypes"]
        number = agg.message["known"]
        met = number > 0
        # weights cancel: total and number are sums with the same weights
        means = total / lift(torch.where(met, number, 1.0), total)
        prototypes = torch.where(lift(met, total), means, shared["prototypes"])
        # once known, always known: a class that nobody met keeps its last prototype
        known = torch.where(met, torch.ones_like(number), shared["known"])
        return agg.mean(agg.delta), {
            **shared,
            "prototypes": prototypes,
            "known": known,
        }
