"""Modules that cannot be run as a function of a flat vector, refused in one line each."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from fedstep.core.errors import InputError

COMPUTING = (SpectralNorm, WeightNorm, BasePruningMethod)
WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def refuse_unusable(module: nn.Module) -> None:
    """Refuse what torch would refuse later, in words that name no remedy."""
    name = type(module).__name__
    if isinstance(module, WRAPPERS):
        raise InputError(f"{name} spreads a model over devices: give model.module")
    if any(isinstance(layer, torch.jit.ScriptModule) for layer in module.modules()):
        raise InputError(f"{name} is compiled by torch.jit: give the module that it was made of")
    for part, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if isinstance(tensor, UninitializedParameter | UninitializedBuffer):
            raise InputError(
                f"{part} of {name} has no shape yet (a lazy layer): "
                "call the model once on a batch before fit"
            )
        if tensor.is_meta:
            raise InputError(
                f"{part} of {name} is on the meta device and has no values: "
                "model.to_empty(device='cpu'), and load or initialise them"
            )


def copied(module: nn.Module) -> nn.Module:
    """A copy of the module, which is never changed itself."""
    for name, layer in module.named_modules():
        # the older weight_norm and spectral_norm, and pruning: a copy of what they compute and keep
        # cannot be made once they have run
        if any(isinstance(hook, COMPUTING) for hook in layer._forward_pre_hooks.values()):
            raise InputError(
                f"{name} of {type(module).__name__} computes its weight by a hook, which cannot be "
                "copied: use torch.nn.utils.parametrizations for weight and spectral norm, "
                "prune.remove(layer, 'weight') after pruning"
            )
    try:
        return copy.deepcopy(module)
    except (RuntimeError, TypeError) as error:
        # locks, open files, whatever a user's module holds
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{type(module).__name__} cannot be copied ({reason}): take what is no tensor out of it"
        ) from error
