"""How a module is called with the fields of a batch, and what of its output is what.

Hugging Face models are met by what they return (`.loss`, `.logits`), never by their library.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from fedstep.core.errors import InputError
from fedstep.core.types import Batch

IGNORED = -100  # the label of targets that count for nothing, in torch and in Hugging Face
TARGETS = "labels"  # what a Hugging Face model calls them


def forward_parameters(module: nn.Module) -> dict[str, inspect.Parameter]:
    """The parameters of a module's `forward`; none where it cannot be looked into."""
    try:
        parameters = inspect.signature(module.forward).parameters
    except (TypeError, ValueError):
        return {}
    return dict(parameters)


def computes_own_loss(module: nn.Module) -> bool:
    """Whether a module takes its targets as `labels`, as those of Hugging Face do."""
    return TARGETS in forward_parameters(module)


def call_by_name(
    names: Sequence[str] | None,
    fields: Sequence[Tensor],
    with_targets: bool,
) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Positional and keyword arguments of a module's call; targets are the last field."""
    inputs = tuple(fields[:-1])
    keywords: dict[str, Tensor] = {}
    if names is not None:
        keywords = dict(zip(names, inputs, strict=False))
        inputs = ()
    if with_targets:
        keywords[TARGETS] = fields[-1]
    return inputs, keywords


def by_name(names: Sequence[str] | None, batch: Batch) -> Any:
    """The batch as a loss of the user's takes it: by name where the data have names."""
    if names is None:
        return batch
    return dict(zip(names, batch.fields, strict=True))


def own_loss(output: Any, module: nn.Module) -> Tensor:
    """The loss that a module computed of its own."""
    loss = _part(output, "loss")
    if not isinstance(loss, Tensor):
        raise InputError(
            f"{type(module).__name__} gives no loss of its own: "
            "give one, such as loss='cross_entropy'"
        )
    return loss


def predictions_of(output: Any) -> Tensor | None:
    """The predictions of an output, classes on axis 1; None where it is not clear which they are."""
    if isinstance(output, Tensor):
        # of one sample `squeeze()` leaves a bare number
        if output.dim() == 0:
            return output.reshape(1)
        return output
    logits = _part(output, "logits")
    if not isinstance(logits, Tensor):
        return None
    if logits.dim() < 3:
        return logits
    # Hugging Face has the classes of a token last, torch's losses have them on axis 1
    return logits.movedim(-1, 1)


def needed_predictions(output: Any, module: nn.Module) -> Tensor:
    """The predictions; a module that gives something else is refused in one line."""
    predictions = predictions_of(output)
    if predictions is None:
        kind = type(output).__name__
        raise InputError(
            f"{type(module).__name__} returns a {kind}: return a tensor (or .logits), "
            "or give a loss of the output and the batch, loss=def f(output, batch)"
        )
    return predictions


def predicts_next(loss: Tensor, predictions: Tensor, targets: Tensor) -> bool:
    """Whether a loss is that of predicting the next target of a sequence (a causal model).

    Such a model compares its output at place t with the label at t + 1.
    """
    if predictions.dim() != targets.dim() + 1 or targets.dim() < 2:
        return False
    if targets.is_floating_point() or targets.shape[-1] < 2:
        return False
    here = functional.cross_entropy(predictions.float(), targets, ignore_index=IGNORED)
    later = functional.cross_entropy(
        predictions[..., :-1].float(),
        targets[..., 1:],
        ignore_index=IGNORED,
    )
    value = loss.float()
    # the nearer of the two: neither is exact, a model may add terms of its own
    return bool((value - later).abs() < (value - here).abs())


def _part(output: Any, name: str) -> Any:
    if isinstance(output, Mapping):
        return output.get(name)
    return getattr(output, name, None)
