"""Any nn.Module as a model."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Head, Output
from fedstep.core.vec import Vec
from fedstep.models.flat import FlatModel
from fedstep.models.layers import is_linear, keeps_running_statistics, last_layer
from fedstep.models.losses import Loss, is_pointwise, per_sample


class ModuleModel(FlatModel):
    """A module and a loss through a flat view of the parameters that require a gradient.

    The module given is copied and never changed. Frozen parameters and constant buffers stay what
    they are; running statistics (BatchNorm) are refused, because they are not part of the vector
    that the server averages and extrapolates.
    """

    def __init__(self, module: nn.Module, loss: Loss = functional.cross_entropy) -> None:
        super().__init__()
        _refuse_running_statistics(module)
        # training mode whatever it was given in: dropout belongs to training, `evaluating` ends it
        self.module = copy.deepcopy(module).train()
        self.loss = per_sample(loss)
        parameters = _trained_parameters(self.module)
        self._names = list(parameters)
        self._shapes = [parameter.shape for parameter in parameters.values()]
        self._sizes = [parameter.numel() for parameter in parameters.values()]
        # in the order of named_parameters: checkpoints and other programs count on it
        self._start = torch.cat([parameter.reshape(-1) for parameter in parameters.values()])
        self._buffers = dict(self.module.named_buffers())
        self.linear = is_linear(self.module)
        self.pointwise = is_pointwise(self.loss)
        self._embeds = False
        # a linear model has nothing in front of its layer that could embed a sample
        self._last: str | None = None
        if not self.linear:
            self._last = last_layer(self.module)
        if self._last is not None:
            layer = cast(nn.Linear, self.module.get_submodule(self._last))
            self.head = Head(layer.in_features, layer.out_features)

    @property
    def dim(self) -> int:
        return self._start.numel()

    def init(self) -> Vec:
        return self._start.clone()

    def evaluating(self) -> ModuleModel:
        twin = copy.copy(self)
        twin.module = copy.deepcopy(self.module).eval()
        twin.traits = None  # without dropout it is another model
        return twin

    def embedding(self) -> ModuleModel:
        if self._last is None:
            raise InputError(
                f"{type(self.module).__name__} has no linear layer behind others: "
                "nothing embeds a sample"
            )
        # shallow: the module is shared, it is never written to
        twin = copy.copy(self)
        twin._embeds = True
        return twin

    def load(self, x: Vec) -> nn.Module:
        """A copy of the module with the parameters of x, in evaluation mode."""
        # a copy for the user to keep: what he does to it must not reach the run
        module = copy.deepcopy(self.module).eval()
        targets = dict(module.named_parameters())
        with torch.no_grad():
            for name, value in self.parameters(x).items():
                targets[name].copy_(value)
        return module

    def parameters(self, x: Vec) -> dict[str, Tensor]:
        """Named views into a flat vector."""
        pieces = torch.split(x, self._sizes)
        views = {}
        for name, piece, shape in zip(
            self._names,
            pieces,
            self._shapes,
            strict=True,
        ):
            views[name] = piece.view(shape)
        return views

    def untrained(self) -> dict[str, Tensor]:
        """Frozen parameters and buffers: they stay what they are on every machine."""
        values = dict(self._buffers)
        for name, parameter in self.module.named_parameters():
            if name not in self._names:
                values[name] = parameter.detach()
        return values

    def values(self, x: Vec, batch: Batch) -> tuple[Tensor, Tensor]:
        state = self.parameters(x)
        # copies, so that a pass that writes to a buffer leaves no mark
        for name, buffer in self._buffers.items():
            state[name] = buffer.clone()
        output = torch.func.functional_call(self.module, state, batch.fields[:-1])
        predictions = cast(Tensor, output)
        return self.scored(predictions, batch), predictions

    def features(self, inputs: Tensor) -> Tensor:
        """What the linear layer of a linear model sees."""
        if not isinstance(self.module, nn.Sequential):
            return inputs
        return cast(Tensor, self.module[:-1](inputs))

    @property
    def layer_shape(self) -> tuple[int, int]:
        """Outputs and inputs of the linear layer of a linear model."""
        outputs, inputs = self._shapes[0]
        return outputs, inputs

    def layer(self, x: Vec) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the linear layer of a linear model, as views into x."""
        weight, *rest = self.parameters(x).values()
        if not rest:
            return weight, None
        return weight, rest[0]

    def scored(self, predictions: Tensor, batch: Batch) -> Tensor:
        return self.loss(predictions, batch.targets)

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


def _refuse_running_statistics(module: nn.Module) -> None:
    names = []
    for name, layer in module.named_modules():
        if keeps_running_statistics(layer):
            names.append(name)
    if not names:
        return
    shown = ", ".join(names[:3])
    if len(names) > 3:
        shown += " ..."
    raise InputError(
        f"the model keeps running statistics in {shown}: they would not be averaged with the "
        "parameters; pass fedstep.to_group_norm(model) instead"
    )


def _trained_parameters(module: nn.Module) -> dict[str, Tensor]:
    parameters = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            parameters[name] = parameter.detach()
    if not parameters:
        raise InputError(
            f"{type(module).__name__} has no parameters that require a gradient: nothing to train"
        )
    # one vector has one type and lies in one place
    kinds = {(parameter.dtype, parameter.device) for parameter in parameters.values()}
    if len(kinds) > 1:
        raise InputError(
            f"the parameters differ in type or device ({kinds}): convert the model to one of each"
        )
    return parameters
