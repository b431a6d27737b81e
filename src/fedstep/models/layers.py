"""What the layers of a module are: which is the last, and whether the whole is linear."""

from __future__ import annotations

import copy
from math import gcd

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from fedstep.core.errors import InputError
from fedstep.models.standardize import Standardize

# layers that train nothing and treat every sample alone
SHAPERS = (nn.Flatten, nn.Identity, nn.Unflatten, Standardize)


def last_layer(module: nn.Module) -> str | None:
    """The name of the last linear layer.

    None where there is none or where nothing with parameters comes before it.
    """
    names: list[str] = []
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Linear):
            names.append(name)
    if not names:
        return None
    # by identity: two layers may share a parameter
    in_last = {id(p) for p in module.get_submodule(names[-1]).parameters()}
    for parameter in module.parameters():
        if parameter.requires_grad and id(parameter) not in in_last:
            return names[-1]
    return None


def is_linear(module: nn.Module) -> bool:
    """Whether the output is linear in the parameters.

    That is one linear layer, all of it trained, behind layers without any parameters.
    """
    # a hook may do anything to what passes
    if any(layer._forward_hooks or layer._forward_pre_hooks for layer in module.modules()):
        return False
    layers = [module]
    # exactly these types: a subclass may have another `forward`
    if type(module) is nn.Sequential:
        layers = list(module.children()) or layers
    *before, last = layers
    if type(last) is not nn.Linear:
        return False
    trained = all(parameter.requires_grad for parameter in last.parameters())
    return trained and all(type(layer) in SHAPERS for layer in before)


def keeps_running_statistics(layer: nn.Module) -> bool:
    """Whether a layer has statistics of what passed through it (BatchNorm)."""
    return isinstance(layer, _NormBase) and bool(layer.track_running_stats)


def refuse_running_statistics(module: nn.Module) -> None:
    """Refuse a module with statistics that training would change."""
    names = []
    for name, layer in module.named_modules():
        # of a layer in evaluation mode the statistics are constants
        if layer.training and keeps_running_statistics(layer):
            names.append(name)
    if not names:
        return
    shown = ", ".join(names[:3])
    if len(names) > 3:
        shown += " ..."
    raise InputError(
        f"the model keeps running statistics in {shown}: they would not be averaged with the "
        "parameters; pass fedstep.to_group_norm(model) instead, or freeze them by layer.eval()"
    )


def sparse_layers(module: nn.Module) -> list[str]:
    """The names of embeddings whose gradients are sparse."""
    return [name for name, layer in module.named_modules() if getattr(layer, "sparse", False)]


def with_dense_gradients(module: nn.Module) -> nn.Module:
    """The module itself, its embeddings told to give gradients that are ordinary tensors.

    A sparse gradient does not fit a flat vector, and the values are the same.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
            layer.sparse = False
    return module


def to_group_norm(model: nn.Module, groups: int = 2) -> nn.Module:
    """A copy of the model with every BatchNorm replaced by GroupNorm, scale and shift kept.

    There are at most `groups` groups.
    """
    model = copy.deepcopy(model)
    # lists: children are replaced while walking
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _NormBase) and child.track_running_stats:
                setattr(parent, name, _group_norm(child, groups))
    if isinstance(model, _NormBase):
        return _group_norm(model, groups)
    return model


def _group_norm(norm: _NormBase, groups: int) -> nn.GroupNorm:
    channels = norm.num_features
    # the number of groups must divide that of channels
    new = nn.GroupNorm(
        gcd(groups, channels),
        channels,
        norm.eps,
        norm.affine,
    )
    if norm.affine:
        new.load_state_dict({"weight": norm.weight.detach(), "bias": norm.bias.detach()})
        new = new.to(norm.weight.device, norm.weight.dtype)
    return new
