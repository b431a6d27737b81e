"""What can only be learnt of a model by running it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedstep.core.seeds import generator
from fedstep.core.types import Batch, Output
from fedstep.core.vec import Vec
from fedstep.models.means import NeedsRows


@dataclass(frozen=True)
class ModelTraits:
    """How a model can be run.

    random: a pass draws random numbers (dropout). blocks: several clients run in one vmapped pass.
    padding: padded samples can be left out of a client's loss; not so where the model mixes samples
    (batch statistics), or where its loss is a mean already.
    """

    random: bool
    blocks: bool
    padding: bool


class Examinable(Protocol):
    """What an examination needs of a model."""

    def init(self) -> Vec: ...
    def values(self, x: Vec, batch: Batch) -> tuple[Tensor, Tensor | None]: ...
    def one(self, x: Vec, batch: Batch) -> Output: ...
    def block(self, x: Vec, batch: Batch) -> Output: ...


def find_traits(model: Examinable, batch: Batch) -> ModelTraits | None:
    """The traits, from a few passes over a small batch of one client; None where a pass fails."""
    try:
        with torch.enable_grad():  # as in training: some layers have another code path without
            return _find(model, batch)
    except Exception:
        # Any error of the user's code. It is no affair of the examination: the run meets it again
        # and says which client and which round.
        return None


def padding_counts(
    model: Examinable,
    x: Vec,
    batch: Batch,
    out: Output,
) -> bool:
    """Whether padding changed a client's loss in a block, as in a model that mixes samples."""
    assert batch.mask is not None
    # the client with most padding: where it counts at all, it counts most there
    row = int((~batch.mask).sum(-1).argmax())
    alone = model.one(x[row].detach(), batch.row(row)).loss.detach()
    # rounding of a short sum is far below the root of eps, and another mean of samples far above
    close = 3 * torch.finfo(x.dtype).eps ** 0.5
    in_block = out.loss[row].detach()
    return not torch.allclose(
        in_block,
        alone,
        rtol=close,
        atol=close,
        equal_nan=True,
    )


def _find(model: Examinable, batch: Batch) -> ModelTraits:
    x = model.init().requires_grad_()
    random = _draws_random_numbers(model, x, batch)
    # two clients: with one vmap could hide what goes wrong with several
    pair = _twice(batch)
    try:
        model.block(_both(x), pair)
    except (RuntimeError, NotImplementedError):
        # recurrent layers, random numbers, a branch on data: vmap refuses them by these
        return ModelTraits(random, blocks=False, padding=False)
    return ModelTraits(random, blocks=True, padding=_leaves_padding_out(model, x, pair))


def _draws_random_numbers(model: Examinable, x: Vec, batch: Batch) -> bool:
    if x.device.type != "cpu":
        return True  # the state of another device's generator is not worth reading
    with torch.random.fork_rng(devices=[]):
        before = torch.get_rng_state()
        # not `one`, which leaves the generators as it found them
        model.values(x, batch)
        return not torch.equal(before, torch.get_rng_state())


def _leaves_padding_out(model: Examinable, x: Vec, pair: Batch) -> bool:
    padded = _padded(pair)
    # at the start a model may give the same for every sample (weights of zero): look beside it too
    noise = torch.randn(x.shape, generator=generator(0, "examination"), dtype=torch.float32)
    beside = (x + 0.1 * noise.to(x)).detach().requires_grad_()
    for point in (x, beside):
        try:
            out = model.block(_both(point), padded)
        except NeedsRows:
            return False
        if padding_counts(
            model,
            _both(point),
            padded,
            out,
        ):
            return False
    return True


def _both(x: Vec) -> Vec:
    return torch.stack([x, x])


def _twice(batch: Batch) -> Batch:
    """The batch for a block of two clients, with random numbers of their own."""
    return Batch(
        fields=tuple(torch.stack([field, field]) for field in batch.fields),
        share=torch.stack([batch.share, batch.share]),
        seed=torch.stack([batch.seed, batch.seed + 1]),
    )


def _padded(pair: Batch) -> Batch:
    """The last sample of the second client is padding: its first sample once more."""
    fields = []
    for field in pair.fields:
        padded = field.clone()
        padded[1, -1] = padded[1, 0]
        fields.append(padded)
    mask = torch.ones(pair.targets.shape[:2], dtype=torch.bool, device=pair.targets.device)
    mask[1, -1] = False
    return Batch(
        tuple(fields),
        pair.share,
        pair.seed,
        mask,
    )
