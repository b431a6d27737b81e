"""What an optimiser checks of its parts, and how their memories are moved."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, State, Vec


def placed_on(x: Vec, state: State) -> NewState:
    """A saved state where the parameters are now; it may have been saved on another device."""
    return {name: value.to(x.device) for name, value in state.items()}


def put_grads(
    params: list[Tensor],
    grads: list[Tensor | None],
) -> None:
    """Give every parameter the gradient that belongs to it."""
    for p, grad in zip(params, grads, strict=True):
        p.grad = grad


def check_part(
    slot: str,
    part: object,
    base: type,
    example: str,
) -> None:
    """Refuse what is no part of this slot, in one line with the remedy."""
    if isinstance(part, type):
        name = part.__name__
        raise InputError(f"Searching({slot}={name}): {name} is a class; write {name}()")
    if isinstance(part, base):
        return
    kind = "part"
    if slot == "rule":
        kind = "step rule"
    raise InputError(f"Searching({slot}={part!r}): give a {kind} such as {example}()")


def of_numbers(state: State) -> bool:
    """Whether a part remembers numbers alone, and no vector of parameters."""
    return all(value.dim() == 0 for value in state.values())


def warn_of_rates(optimizer: Optimizer, last: Mapping[str, Any] | None) -> bool:
    """Say that a learning rate which somebody wrote into the groups is not read, if there is one.

    last: what the last step left behind; None: there was none.
    """
    shown = 0.0
    if last is not None:
        # states that were saved by earlier versions do not have it
        shown = last.get("step", optimizer.param_groups[0]["lr"])
    if all(group["lr"] == shown for group in optimizer.param_groups):
        return False
    warnings.warn(
        f"{type(optimizer).__name__} finds its own steps: the lr that a scheduler or a group gave "
        'is not read. A scheduler may drive "max_step" of Armijo; see docs/optim.md',
        stacklevel=4,
    )
    return True
