"""Activation checkpointing: layers that run a second time during the backward pass.

A module is run with the parameters of x in the place of its own, which are put back before the
backward pass begins. Whatever is computed again there would be computed with the wrong ones. So the
parameters of x are put in again for as long as the backward pass takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from fedstep.core.errors import InputError
from fedstep.models.binding import Binding, Held, put_back


def recomputes_in_backward(module: nn.Module, loss: Tensor, x: Tensor) -> bool:
    """Whether layers run again during the backward pass; refused where they cannot."""
    kind = type(module).__name__
    if not loss.requires_grad:
        raise InputError(
            f"the loss of {kind} does not depend on its parameters: "
            "give checkpoint(..., use_reentrant=False), or take no_grad out of its forward"
        )
    calls: list[str] = []

    def note(layer: nn.Module, inputs: Any) -> None:
        calls.append(type(layer).__name__)

    hooks = [layer.register_forward_pre_hook(note) for layer in module.modules()]
    try:
        torch.autograd.grad(loss, x)
    except RuntimeError as error:
        # the older kind gathers gradients in the module's own parameters
        if "checkpoint" in str(error).lower():
            raise InputError(
                f"{kind} computes activations again in a way that gives no gradient here: "
                "give checkpoint(..., use_reentrant=False)"
            ) from None
        raise
    finally:
        for hook in hooks:
            hook.remove()
    return bool(calls)


class Recomputed:
    """The parameters and buffers of one pass, there again whenever it is gone through backwards."""

    def __init__(self, binding: Binding, state: Mapping[str, Tensor]) -> None:
        self._binding = binding
        self._state = state
        self._own: list[Held] | None = None  # those of the module, while others are in

    def keep_for(self, losses: Tensor, x: Tensor) -> None:
        """Watch over a backward pass from these losses to x, which its parameters are views of.

        By hooks of this pass alone, so that passes may be gone through backwards in any order.
        """
        if not losses.requires_grad:
            return
        losses.register_hook(self._hook(self._put_in))  # type: ignore[no-untyped-call]
        # the gradient of x is complete when all layers are done
        x.register_hook(self._hook(self._take_out))  # type: ignore[no-untyped-call]

    def _hook(self, action: Callable[[], None]) -> Callable[[Tensor], None]:
        def hook(gradient: Tensor) -> None:
            action()

        return hook

    def _put_in(self) -> None:
        if self._own is None:
            self._own = self._binding.put_in(self._state)

    def _take_out(self) -> None:
        if self._own is not None:
            put_back(self._own)
            self._own = None
