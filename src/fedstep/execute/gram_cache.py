"""When a client works in the span of its samples (models/dual.py), and the Gram matrices for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from fedstep.core.vec import Vec
from fedstep.corrections.base import Correction
from fedstep.data.federation import Federation
from fedstep.execute.task import Task
from fedstep.models.dual import Dual
from fedstep.models.module import ModuleModel

LIMIT = 512 * 2**20  # bytes of Gram matrices on one machine; the least recently used go first


def dual_form_fits(task: Task) -> bool:
    """Whether the dual form is the same algorithm.

    It is for a linear model, and for parts that need sums and inner products only.
    """
    return _model_fits(task) and _algorithm_fits(task)


def _model_fits(task: Task) -> bool:
    model = task.model
    return (
        isinstance(model, ModuleModel)
        and model.linear
        and model.pointwise  # a mean over samples could not leave padding out
        and task.federation.transform is None  # a matrix is of the samples as they lie there
        and len(task.federation.fields) == 2
    )


def _algorithm_fits(task: Task) -> bool:
    local = task.algorithm.local
    correction = task.algorithm.correction
    if local.terms or correction.terms():
        return False  # a term is a function of the parameters, and in the span there are none
    if type(correction).start is not Correction.start:
        return False  # the span is one around the model sent
    if type(correction).prepare is not Correction.prepare:
        return False
    if type(correction).count_gradient is not Correction.count_gradient:
        return False  # nor are there gradients in the parameters to add up
    if type(correction).steer is not Correction.steer:
        return False  # what steers a direction is a vector of parameters
    parts = (local, local.step, local.direction, local.oracle, local.move)
    return all(getattr(part, "intrinsic", False) for part in parts)


def dual_form_pays(task: Task, n: int) -> bool:
    """Whether the dual form is less work for a client with n samples.

    A round of K steps of b samples with m classes and p features costs K b 2 p m products in the
    plain form. In the dual form it is K b n m, and n p (2 m + n / 2) for the logits, the way back
    and the Gram matrix.
    """
    assert isinstance(task.model, ModuleModel)
    classes, features = task.model.layer_shape
    if n >= features:
        return False
    samples_of_round = task.plan.length(n) * min(task.plan.batch, n)
    gain = samples_of_round * (2 * features - n) * classes
    price = n * features * (2 * classes + n / 2)
    return gain > price


@dataclass
class GramCache:
    """Gram matrices of the clients met so far.

    A matrix is made from its client alone: the bits do not depend on the block.
    A copy that is pickled is empty: matrices are cheaper to make anew than to send.
    """

    limit: int = LIMIT  # bytes
    federation: Federation | None = None  # whose clients they are
    matrices: OrderedDict[int, Tensor] = field(
        default_factory=OrderedDict
    )  # by client, oldest first
    bytes: int = 0  # of all matrices

    def dual_form(
        self,
        task: Task,
        anchor: Vec,
        clients: Sequence[int],
    ) -> Dual:
        """The dual form of a block of clients at the model sent."""
        model = task.model
        assert isinstance(model, ModuleModel)
        pool = task.federation.fields[0]
        inputs = []
        grams = []
        for client in clients:
            samples = task.federation.parts[client]
            features = model.features(pool[samples].to(anchor))
            inputs.append(features)
            grams.append(self._gram(task, client, features))
        return Dual.of(model, anchor, inputs, grams)

    def _gram(
        self,
        task: Task,
        client: int,
        inputs: Tensor,
    ) -> Tensor:
        if self.federation is not task.federation:
            # another federation has other clients of the same numbers
            self._forget(task.federation)
        gram = self.matrices.get(client)
        # a run in float32 and one in float64 may share an executor
        if gram is not None and gram.dtype == inputs.dtype:
            self.matrices.move_to_end(client)
            return gram
        assert isinstance(task.model, ModuleModel)
        gram = Dual.gram_of(task.model, inputs)
        self.matrices[client] = gram
        self.bytes += gram.nbytes
        self._shrink()
        return gram

    def _forget(self, federation: Federation) -> None:
        self.federation = federation
        self.matrices.clear()
        self.bytes = 0

    def _shrink(self) -> None:
        # the last one stays however large it is: it is the one at hand
        while self.bytes > self.limit and len(self.matrices) > 1:
            _, oldest = self.matrices.popitem(last=False)
            self.bytes -= oldest.nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        return GramCache, (self.limit,)
