"""Losses: by name, as a class, a module or a function; one number a sample where possible."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

from torch import Tensor, nn
from torch.nn import functional

from fedstep.core.errors import InputError, unknown

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
GivenLoss: TypeAlias = "Loss | type[nn.Module] | str | BatchLoss | OwnLoss | None"


@dataclass(frozen=True)
class OwnLoss:
    """The loss that the module computes itself, given its targets as `labels`."""


@dataclass(frozen=True)
class BatchLoss:
    """A function of the module's whole output and the batch.

    The batch is a `fedstep.Batch`, or a dict where the clients' data have names.
    """

    function: Callable[[Any, Any], Tensor]


def mse(predictions: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """Squared error; targets of shape (N,) fit predictions of (N, 1)."""
    return functional.mse_loss(predictions, like(targets, predictions), reduction=reduction)


def bce(predictions: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """Binary cross-entropy of logits and targets 0 or 1; (N,) fits (N, 1)."""
    return functional.binary_cross_entropy_with_logits(
        predictions,
        like(targets, predictions),
        reduction=reduction,
    )


NAMED: dict[str, Loss] = {
    "cross_entropy": functional.cross_entropy,
    "mse": mse,
    "bce": bce,
    "l1": functional.l1_loss,
    "huber": functional.huber_loss,
    "nll": functional.nll_loss,
}


def loss_of(given: GivenLoss) -> Loss | BatchLoss | OwnLoss:
    """A loss as the models take it; None is cross-entropy."""
    if given is None:
        return functional.cross_entropy
    if isinstance(given, OwnLoss | BatchLoss):
        return given
    if isinstance(given, str):
        if given not in NAMED:
            raise InputError(unknown("loss", given, list(NAMED)))
        return NAMED[given]
    if isinstance(given, type):
        return _made(given)
    if not callable(given):
        raise InputError(
            f"loss={given!r}: give a name such as 'mse', a class such as nn.MSELoss, "
            "or a function of predictions and targets"
        )
    if _takes_the_batch(given):
        return BatchLoss(given)
    return given


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
    if loss.func in NAMED.values():
        return True
    return getattr(loss.func, "__module__", "") == functional.__name__


def ignored_target(loss: Any) -> int | None:
    """The target that counts for nothing in a loss that `per_sample` returned; None: there is none.

    Only of losses that give one number a target: a mean has left it out already.
    """
    if isinstance(loss, nn.Module) and getattr(loss, "reduction", None) == "none":
        return getattr(loss, "ignore_index", None)
    if not isinstance(loss, partial) or loss.keywords.get("reduction") != "none":
        return None
    if "ignore_index" in loss.keywords:
        return cast(int, loss.keywords["ignore_index"])
    parameters = inspect.signature(loss.func).parameters
    if "ignore_index" not in parameters:
        return None
    return cast(int, parameters["ignore_index"].default)


def _module_per_sample(loss: nn.Module) -> Loss:
    if getattr(loss, "reduction", None) != "mean" or getattr(loss, "weight", None) is not None:
        return loss
    # the module given stays as it is: the user may go on with it
    twin = copy.deepcopy(loss)
    twin.reduction = "none"  # type: ignore[assignment]
    return twin


def _made(kind: type) -> Loss:
    """An instance of a class of losses, which needs no arguments."""
    if not issubclass(kind, nn.Module):
        raise InputError(f"loss={kind.__name__}: a class must be an nn.Module such as nn.MSELoss")
    try:
        return cast(Loss, kind())
    except TypeError as error:
        raise InputError(f"loss={kind.__name__}: give an instance of it ({error})") from None


def _takes_the_batch(function: Callable[..., Any]) -> bool:
    """Whether its second argument is called `batch`."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return False
    return len(names) > 1 and names[1] == "batch"


def like(targets: Tensor, predictions: Tensor) -> Tensor:
    """Targets in the shape and type of the predictions that they are compared with one by one."""
    # (N,) against (N, 1) would be broadcast to (N, N), and the mean be that of all pairs
    if targets.shape != predictions.shape and targets.numel() == predictions.numel():
        targets = targets.reshape(predictions.shape)
    return targets.to(predictions.dtype)
