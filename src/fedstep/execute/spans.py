"""When a client works in the span of its samples, and the Gram matrices that it needs for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedstep.core.vec import Vec
from fedstep.corrections.base import Correction
from fedstep.data.federation import Federation
from fedstep.execute.task import Task
from fedstep.models.dual import Dual
from fedstep.models.module import ModuleModel

LIMIT = 512 * 2**20  # bytes of Gram matrices kept; the least recently used go first


def spans(task: Task) -> bool:
    """Whether the dual form is the same algorithm: a linear model, and parts that need sums and inner products only."""
    model, alg = task.model, task.algorithm
    parts = (alg.local, alg.local.step, alg.local.direction, alg.local.oracle, alg.local.move)
    return (
        isinstance(model, ModuleModel)
        and model.linear
        and model.pointwise  # a mean over samples could not leave padding out
        and task.federation.transform is None
        and len(task.federation.fields) == 2
        and not alg.local.terms
        and not alg.correction.terms()
        and type(alg.correction).start is Correction.start
        and type(alg.correction).prepare is Correction.prepare
        and not any(
            name.startswith("direction.") for name in alg.correction.shared_init(torch.zeros(1))
        )
        and all(getattr(part, "intrinsic", False) for part in parts)
    )


def pays(task: Task, n: int) -> bool:
    """Whether the dual form is less work for a client with n samples.

    A round of K steps of b samples with m classes and p features costs K b 2 p m products in the plain form. In the dual form
    it is K b n m, and n p (2 m + n / 2) for the logits, the way back and the Gram matrix.
    """
    assert isinstance(task.model, ModuleModel)
    classes, features = task.model.layer_shape
    seen = task.plan.length(n) * min(task.plan.batch, n)
    return n < features and seen * (2 * features - n) * classes > n * features * (
        2 * classes + n / 2
    )


@dataclass
class Spans:
    """Gram matrices of the clients met so far. A matrix is made from its client alone: the bits do not depend on the block."""

    of: Federation | None = None
    kept: OrderedDict[int, Tensor] = field(default_factory=OrderedDict)
    size: int = 0

    def block(self, task: Task, anchor: Vec, clients: Sequence[int]) -> Dual:
        """The dual form of a block of clients at the model sent."""
        model = task.model
        assert isinstance(model, ModuleModel)
        pool = task.federation.fields[0]
        inputs = [model.features(pool[task.federation.parts[c]].to(anchor)) for c in clients]
        grams = [self._gram(task, c, own) for c, own in zip(clients, inputs, strict=True)]
        return Dual.of(model, anchor, inputs, grams)

    def _gram(self, task: Task, client: int, inputs: Tensor) -> Tensor:
        if self.of is not task.federation:
            self.of, self.size = task.federation, 0
            self.kept.clear()
        if client in self.kept and self.kept[client].dtype == inputs.dtype:
            self.kept.move_to_end(client)
            return self.kept[client]
        assert isinstance(task.model, ModuleModel)
        gram = Dual.gram_of(task.model, inputs)
        self.kept[client] = gram
        self.size += gram.numel() * gram.element_size()
        while self.size > LIMIT and len(self.kept) > 1:
            _, old = self.kept.popitem(last=False)
            self.size -= old.numel() * old.element_size()
        return gram
