"""Losses that give one number a sample."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, cast

from torch import Tensor, nn
from torch.nn import functional

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def per_sample(loss: Loss) -> Loss:
    """The loss of every sample where a mean was asked for, so that padding can be left out.

    Losses with class weights take another mean, and other callables are used as they are.
    """
    if isinstance(loss, nn.Module):
        return _module_per_sample(loss)
    # whoever has named the reduction, or weights, means it
    if isinstance(loss, partial) and {"reduction", "weight"} & set(loss.keywords):
        return loss
    try:
        parameters = inspect.signature(loss).parameters
    except (TypeError, ValueError):  # functions of extensions have no signature
        return loss
    if "reduction" in parameters and parameters["reduction"].default == "mean":
        return partial(cast(Callable[..., Tensor], loss), reduction="none")
    return loss


def is_pointwise(loss: Loss) -> bool:
    """Whether a loss that `per_sample` returned is one of torch's own: one number a sample.

    Of other functions that is not known: a contrastive loss sees all samples of its batch.
    """
    if isinstance(loss, nn.Module):
        of_torch = type(loss).__module__.startswith("torch.")
        return of_torch and getattr(loss, "reduction", None) == "none"
    if not isinstance(loss, partial) or loss.keywords.get("reduction") != "none":
        return False
    return getattr(loss.func, "__module__", "") == functional.__name__


def _module_per_sample(loss: nn.Module) -> Loss:
    if getattr(loss, "reduction", None) != "mean" or getattr(loss, "weight", None) is not None:
        return loss
    # the module given stays as it is: the user may go on with it
    twin = copy.deepcopy(loss)
    twin.reduction = "none"  # type: ignore[assignment]
    return twin
