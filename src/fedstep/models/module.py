"""Any nn.Module as a model."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import gcd
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _NormBase

from fedstep.core.errors import InputError
from fedstep.core.types import Batch, Head, Output
from fedstep.core.vec import Vec
from fedstep.models.flat import FlatModel

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class ModuleModel(FlatModel):
    """A module and a loss through a flat view of the parameters that require a gradient.

    The module given is copied and never changed. Frozen parameters and constant buffers stay what they are; running
    statistics (BatchNorm) are refused, because they are not part of the vector that the server averages and extrapolates.
    """

    def __init__(self, module: nn.Module, loss: Loss = functional.cross_entropy) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).train()
        self.loss = per_sample(loss)
        tracked = [
            name
            for name, m in module.named_modules()
            if isinstance(m, _NormBase) and m.track_running_stats
        ]
        if tracked:
            raise InputError(
                f"the model keeps running statistics in {', '.join(tracked[:3])}{' ...' if len(tracked) > 3 else ''}: "
                "they would not be averaged with the parameters; pass fedstep.to_group_norm(model) instead"
            )
        parameters = {
            name: p.detach() for name, p in self.module.named_parameters() if p.requires_grad
        }
        if not parameters:
            raise InputError(
                f"{type(module).__name__} has no parameters that require a gradient: nothing to train"
            )
        kinds = {(p.dtype, p.device) for p in parameters.values()}
        if len(kinds) > 1:
            raise InputError(
                f"the parameters differ in type or device ({kinds}): convert the model to one of each"
            )
        self._names, self._shapes = list(parameters), [p.shape for p in parameters.values()]
        self._sizes = [p.numel() for p in parameters.values()]
        self._start = torch.cat([p.reshape(-1) for p in parameters.values()])
        self._buffers = dict(self.module.named_buffers())
        self.linear = is_linear(self.module)
        self.pointwise = is_pointwise(self.loss)
        self._last, self._embeds = None if self.linear else last_layer(self.module), False
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
        twin.stochastic = None
        return twin

    def embedding(self) -> ModuleModel:
        if self._last is None:
            raise InputError(
                f"{type(self.module).__name__} has no linear layer behind others: nothing embeds a sample"
            )
        twin = copy.copy(self)
        twin._embeds = True
        return twin

    def load(self, x: Vec) -> nn.Module:
        """A copy of the module with the parameters of x, in evaluation mode."""
        module = copy.deepcopy(self.module).eval()
        own = dict(module.named_parameters())
        with torch.no_grad():
            for name, value in self.parameters(x).items():
                own[name].copy_(value)
        return module

    def parameters(self, x: Vec) -> dict[str, Tensor]:
        """Named views into a flat vector."""
        pieces = zip(self._names, torch.split(x, self._sizes), self._shapes, strict=True)
        return {name: piece.view(shape) for name, piece, shape in pieces}

    def values(self, x: Vec, batch: Batch) -> tuple[Tensor, Tensor]:
        state = self.parameters(x)
        if self._buffers:  # copies, so that a pass that writes to a buffer leaves no mark
            state |= {name: b.clone() for name, b in self._buffers.items()}
        predictions = cast(
            Tensor, torch.func.functional_call(self.module, state, batch.fields[:-1])
        )
        return self.scored(predictions, batch), predictions

    def features(self, inputs: Tensor) -> Tensor:
        """What the linear layer of a linear model sees."""
        return (
            cast(Tensor, self.module[:-1](inputs))
            if isinstance(self.module, nn.Sequential)
            else inputs
        )

    @property
    def layer_shape(self) -> tuple[int, int]:
        """Outputs and inputs of the linear layer of a linear model."""
        rows, columns = self._shapes[0]
        return rows, columns

    def layer(self, x: Vec) -> tuple[Tensor, Tensor | None]:
        """Weight and bias of the linear layer of a linear model, as views into x."""
        weight, *bias = self.parameters(x).values()
        return weight, bias[0] if bias else None

    def scored(self, predictions: Tensor, batch: Batch) -> Tensor:
        return self.loss(predictions, batch.targets)

    def _reduced(self, x: Vec, batch: Batch) -> Output:
        if not self._embeds or self._last is None:
            return super()._reduced(x, batch)
        seen: list[Tensor] = []
        hook = self.module.get_submodule(self._last).register_forward_pre_hook(
            lambda m, given: seen.append(given[0])
        )
        try:
            out = super()._reduced(x, batch)
        finally:
            hook.remove()
        if not seen or seen[-1].dim() != 2:
            raise InputError(
                f"the last linear layer of {type(self.module).__name__} does not see one vector a sample"
            )
        return replace(out, embedding=seen[-1])


def last_layer(module: nn.Module) -> str | None:
    """The name of the last linear layer, None where there is none or where nothing with parameters comes before it."""
    names = [name for name, m in module.named_modules() if isinstance(m, nn.Linear)]
    if not names:
        return None
    own = {id(p) for p in module.get_submodule(names[-1]).parameters()}
    return (
        names[-1]
        if any(p.requires_grad and id(p) not in own for p in module.parameters())
        else None
    )


def is_linear(module: nn.Module) -> bool:
    """Whether the output is linear in the parameters: one linear layer, all of it trained, behind layers without any."""
    layers = list(module.children()) if type(module) is nn.Sequential else [module]
    *before, last = layers or [module]
    if any(m._forward_hooks or m._forward_pre_hooks for m in module.modules()):
        return False
    shapers = (nn.Flatten, nn.Identity, nn.Unflatten)
    return (
        type(last) is nn.Linear
        and all(p.requires_grad for p in last.parameters())
        and all(type(m) in shapers for m in before)
    )


def is_pointwise(loss: Loss) -> bool:
    """Whether a loss that `per_sample` returned is one of torch's own, which give one number a sample."""
    if isinstance(loss, nn.Module):
        return (
            type(loss).__module__.startswith("torch.")
            and getattr(loss, "reduction", None) == "none"
        )
    if not isinstance(loss, partial) or loss.keywords.get("reduction") != "none":
        return False
    return getattr(loss.func, "__module__", "") == functional.__name__


def per_sample(loss: Loss) -> Loss:
    """The loss of every sample where a mean was asked for, so that padded samples can be left out.

    Losses with class weights take another mean, and other callables are used as they are.
    """
    if isinstance(loss, nn.Module):
        if getattr(loss, "reduction", None) != "mean" or getattr(loss, "weight", None) is not None:
            return loss
        loss = copy.deepcopy(loss)
        loss.reduction = "none"  # type: ignore[assignment]
        return loss
    if isinstance(loss, partial) and {"reduction", "weight"} & set(loss.keywords):
        return loss
    try:
        named = inspect.signature(loss).parameters
    except (TypeError, ValueError):
        return loss
    if "reduction" in named and named["reduction"].default == "mean":
        return partial(cast(Callable[..., Tensor], loss), reduction="none")
    return loss


def to_group_norm(model: nn.Module, groups: int = 2) -> nn.Module:
    """A copy of the model with every BatchNorm replaced by GroupNorm (at most `groups` groups), scale and shift kept."""
    model = copy.deepcopy(model)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _NormBase) and child.track_running_stats:
                setattr(parent, name, _group_norm(child, groups))
    return _group_norm(model, groups) if isinstance(model, _NormBase) else model


def _group_norm(norm: _NormBase, groups: int) -> nn.GroupNorm:
    new = nn.GroupNorm(gcd(groups, norm.num_features), norm.num_features, norm.eps, norm.affine)
    if norm.affine:
        new.load_state_dict({"weight": norm.weight.detach(), "bias": norm.bias.detach()})
        new = new.to(norm.weight.device, norm.weight.dtype)
    return new
