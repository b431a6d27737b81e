"""Any nn.Module as a model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Head, Output
from fedstep.core.vec import Vec
from fedstep.models.binding import Binding
from fedstep.models.layers import (
    is_linear,
    last_layer,
    refuse_running_statistics,
    sparse_layers,
    with_dense_gradients,
)
from fedstep.models.layout import ParameterLayout, trained_parameters
from fedstep.models.linear_block import MaybeLinear
from fedstep.models.loss_kinds import LossKind, binary_scores, kind_of
from fedstep.models.losses import (
    BatchLoss,
    GivenLoss,
    OwnLoss,
    ignored_target,
    is_pointwise,
    like,
    loss_of,
    per_sample,
)
from fedstep.models.outputs import (
    by_name,
    call_by_name,
    needed_predictions,
    own_loss,
    predictions_of,
    predicts_next,
)
from fedstep.models.pooling import with_quick_pools, with_usual_pools
from fedstep.models.recomputing import Recomputed, recomputes_in_backward
from fedstep.models.seeded import seeded
from fedstep.models.unusable import copied, refuse_unusable

HALF = (torch.bfloat16, torch.float16)


class ModuleModel(MaybeLinear):
    """A module and a loss through a flat view of the parameters that require a gradient.

    The module given is copied and never changed, and its modes are kept: a layer that was set to
    evaluation (a frozen BatchNorm, a model without dropout) stays so. Frozen parameters and
    constant buffers stay what they are; running statistics that training would change are refused,
    because they are not part of the vector that the server averages and extrapolates.
    names: what the fields of a batch are called, for a module that is called by keywords.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: GivenLoss = functional.cross_entropy,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        refuse_unusable(module)
        refuse_running_statistics(module)
        self._sparse = sparse_layers(module)
        self.module = with_quick_pools(with_dense_gradients(copied(module)))
        self.layout = ParameterLayout.of(self.module)
        self.shapes = self.layout.shapes
        self.names = names
        self.given_loss = loss
        self.loss = loss_of(loss)
        self.pointwise = False
        if not isinstance(self.loss, OwnLoss | BatchLoss):
            self.loss = per_sample(self.loss)
            self.pointwise = is_pointwise(self.loss)
        self.loss_kind = kind_of(self.loss)
        # whether the output at place t is compared with the target at t + 1; `examined` finds out
        self.predicts_next = False
        # whether layers run again in the backward pass; `examined` finds that out, too
        self.recomputes = False
        self._start = self.layout.flat(trained_parameters(self.module))
        self._bind()
        # by position and in its own type: only then the predictions are linear in the vector
        self.linear = names is None and not self.layout.casts and is_linear(self.module)
        self._embeds = False
        # a linear model has nothing in front of its layer that could embed a sample
        self._last: str | None = None
        if not self.linear:
            self._last = last_layer(self.module)
        if self._last is not None:
            layer = cast(nn.Linear, self.module.get_submodule(self._last))
            self.head = Head(layer.in_features, layer.out_features)

    def _bind(self) -> None:
        self._buffers = dict(self.module.named_buffers())
        self._binding = Binding(self.module)

    @property
    def dim(self) -> int:
        return self._start.numel()

    def init(self) -> Vec:
        return self._start.clone()

    def starting_at(self, x: Vec) -> Self:
        twin = copy.copy(self)
        twin._start = x.detach().clone()
        return twin

    def on(self, device: torch.device) -> Self:
        twin = self.starting_at(self._start.to(device))
        twin.module = copy.deepcopy(self.module).to(device)
        twin._bind()
        return twin

    def evaluating(self) -> ModuleModel:
        twin = copy.copy(self)
        # the parameters are shared: no pass looks at the module's own, and they are as large again
        shared: dict[int, Any] = {id(own): own for own in self.module.parameters()}
        twin.module = copy.deepcopy(self.module, shared).eval()
        twin._bind()
        twin.traits = None  # without dropout it is another model
        return twin

    def embedding(self) -> ModuleModel:
        if self._last is None:
            raise InputError(
                f"{type(self.module).__name__} has no linear layer behind others: "
                "nothing embeds a sample"
            )
        twin = copy.copy(self)  # shallow: the module is shared, it is never written to
        twin._embeds = True
        return twin

    def examined(self, batch: Batch) -> ModuleModel:
        if self.traits is not None:
            return self
        twin = super().examined(batch)
        try:
            twin._look_at_one_pass(batch)
        except InputError:
            raise
        except Exception:
            # any error of the user's code: the run meets it again and says where
            return twin
        return twin

    def _look_at_one_pass(self, batch: Batch) -> None:
        """Find out what a pass forward and back shows of the module; this copy learns it."""
        x = self.init().requires_grad_()
        with torch.enable_grad(), seeded(int(batch.seed), x.device):
            output = self.output(x, batch)
            loss = self.losses(output, batch).mean()
            self.recomputes = recomputes_in_backward(self.module, loss, x)
        if self.recomputes and self.traits is not None:
            # a block is one pass for several clients, and so is what is computed again: row by row
            self.traits = replace(self.traits, blocks=False, padding=False)
        predictions = predictions_of(output)
        if isinstance(self.loss, OwnLoss) and predictions is not None:
            self.predicts_next = predicts_next(loss, predictions, batch.targets)

    def load(self, x: Vec) -> nn.Module:
        """A copy of the module with the parameters of x, in evaluation mode."""
        # a copy for the user to keep: what he does to it must not reach the run
        module = with_usual_pools(copy.deepcopy(self.module).eval())
        for name in self._sparse:
            module.get_submodule(name).sparse = True  # type: ignore[assignment]
        targets = dict(module.named_parameters())
        with torch.no_grad():
            for name, value in self.parameters(x).items():
                targets[name].copy_(value)
        return module

    def parameters(self, x: Vec) -> dict[str, Tensor]:
        """Named views into a flat vector."""
        return self.layout.parameters(x)

    def untrained(self) -> dict[str, Tensor]:
        """Frozen parameters and buffers: they stay what they are on every machine."""
        values = dict(self._buffers)
        trained = {place.name for place in self.layout.places}
        for name, parameter in self.module.named_parameters():
            if name not in trained:
                values[name] = parameter.detach()
        return values

    def values(self, x: Vec, batch: Batch) -> tuple[Tensor, Tensor | None]:
        if self.recomputes:
            x = x.view_as(x)  # of this pass alone, and so are the hooks on it
        state = self._state(x)
        output = self._called(state, batch)
        losses = self.losses(output, batch)
        if self.recomputes:
            Recomputed(self._binding, state).keep_for(losses, x)
        predictions = predictions_of(output)
        if self.predicts_next and predictions is not None:
            predictions = predictions[..., :-1]
        return losses, predictions

    def targets(self, batch: Batch) -> Tensor:
        if self.predicts_next:
            return batch.targets[..., 1:]
        if self.loss_kind is LossKind.NUMBERS:
            return batch.targets.to(self.layout.dtype)
        return batch.targets

    def scores(self, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        if self.loss_kind is LossKind.CLASSES and targets.is_floating_point():
            # probabilities of the classes: the most probable one is the label
            return predictions, targets.argmax(1)
        if self.loss_kind is None or not self.loss_kind.is_binary:
            return predictions, targets
        binary = binary_scores(self.loss_kind, predictions, targets)
        return binary or (predictions, targets)

    def counting(self, targets: Tensor | None) -> Self:
        ignored = ignored_target(self.loss)
        if ignored is None:
            return self
        if targets is not None and not bool((targets == ignored).any()):
            return self
        twin = copy.copy(self)
        twin.ignores_targets = True
        # the mean is no longer one over samples, which the quick ways of linear models count on
        twin.linear = False
        return twin

    def counted(self, batch: Batch) -> Tensor | None:
        # asked in every pass: to look at the loss's signature would cost more than a small pass
        if not self.ignores_targets:
            return None
        ignored = ignored_target(self.loss)
        if ignored is None:
            return None
        return torch.ne(batch.targets, ignored)

    def output(self, x: Vec, batch: Batch) -> Any:
        """What the module returns."""
        return self._called(self._state(x), batch)

    def _state(self, x: Vec) -> dict[str, Tensor]:
        state = self.parameters(x)
        # copies, so that a pass that writes to a buffer leaves no mark
        for name, buffer in self._buffers.items():
            state[name] = buffer.clone()
        return state

    def _called(self, state: dict[str, Tensor], batch: Batch) -> Any:
        fields = self.layout.cast_inputs(batch.fields)
        inputs, keywords = call_by_name(self.names, fields, isinstance(self.loss, OwnLoss))
        return self._binding.call(state, inputs, keywords)

    def losses(self, output: Any, batch: Batch) -> Tensor:
        """Loss of each sample (or their mean) of what the module returned."""
        if isinstance(self.loss, OwnLoss):
            return own_loss(output, self.module).to(self.layout.dtype)
        if isinstance(self.loss, BatchLoss):
            losses = self.loss.function(output, by_name(self.names, batch))
            return torch.as_tensor(losses)
        return self.scored(needed_predictions(output, self.module), batch)

    def scored(self, predictions: Tensor, batch: Batch) -> Tensor:
        assert callable(self.loss)
        if predictions.dtype in HALF:
            # a mean of 16 bits has three digits: too few for a search to compare by
            predictions = predictions.to(self.layout.dtype)
        targets = batch.targets
        if self.loss_kind not in (None, LossKind.CLASSES):
            targets = like(targets, predictions)
        return self.loss(predictions, targets)

    def _reduced(self, x: Vec, batch: Batch) -> Output:
        if not self._embeds or self._last is None:
            return super()._reduced(x, batch)
        entered: list[Tensor] = []

        def note(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            entered.append(inputs[0])

        # a hook and not a cut module: users' modules need not be sequences of layers
        hook = self.module.get_submodule(self._last).register_forward_pre_hook(note)
        try:
            out = super()._reduced(x, batch)
        finally:
            hook.remove()
        # a layer that is called several times (tied heads) embeds by its last call
        if not entered or entered[-1].dim() != 2:
            raise InputError(
                f"the last linear layer of {type(self.module).__name__} "
                "does not see one vector a sample"
            )
        return replace(out, embedding=entered[-1])
