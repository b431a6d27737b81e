"""Max-pooling without its branches: the same numbers in half of the time.

torch looks for the largest number of a window one by one, and remembers its place. On pictures whose
channels come first that is as much work as a convolution.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

MOST = 9  # numbers of a window: each costs a pass, and torch's own loop is no slower from there on


class QuickMaxPool2d(nn.MaxPool2d):
    """nn.MaxPool2d where windows do not overlap: the largest of slices of the picture.

    On whatever it is not made for (other devices, vmap, forward derivatives, channels last) it is
    nn.MaxPool2d itself.
    """

    def forward(self, input: Tensor) -> Tensor:
        if not _plain(input):
            return cast(Tensor, super().forward(input))
        height, width = _pair(self.kernel_size)
        return cast(Tensor, _Largest.apply(input, height, width))  # type: ignore[no-untyped-call]

    def _get_name(self) -> str:
        # the text of a module is part of what a run is
        return nn.MaxPool2d.__name__


def with_quick_pools(module: nn.Module) -> nn.Module:
    """The module itself, its max-pooling layers made quick where that gives the same numbers."""
    for layer in module.modules():
        # exactly this type: a subclass may have another `forward`
        if type(layer) is nn.MaxPool2d and _has_own_windows(layer):
            layer.__class__ = QuickMaxPool2d
    return module


def with_usual_pools(module: nn.Module) -> nn.Module:
    """The module itself, with the layers that torch knows."""
    for layer in module.modules():
        if type(layer) is QuickMaxPool2d:
            layer.__class__ = nn.MaxPool2d  # type: ignore[assignment]
    return module


def _has_own_windows(layer: nn.MaxPool2d) -> bool:
    """Whether every number is in one window at most, and windows are small and whole."""
    height, width = _pair(layer.kernel_size)
    return (
        _pair(layer.stride) == (height, width)
        and _pair(layer.padding) == (0, 0)
        and _pair(layer.dilation) == (1, 1)
        and not layer.ceil_mode
        and not layer.return_indices
        and 1 < height * width <= MOST
    )


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    height, width = size
    return height, width


def _plain(input: Tensor) -> bool:
    return (
        type(input) is Tensor
        and input.device.type == "cpu"
        and input.dtype in (torch.float32, torch.float64)
        and input.dim() in (3, 4)
        and input.is_contiguous()
        and input.numel() > 0
        # a custom function has rules for neither
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch.autograd.forward_ad._current_level < 0
    )


class _Largest(torch.autograd.Function):
    """The largest number of each window; its gradient goes to the first place that has it."""

    @staticmethod
    def forward(ctx: Any, picture: Tensor, height: int, width: int) -> Tensor:
        rows = _whole(picture.shape[-2], height)
        columns = _whole(picture.shape[-1], width)
        # rows first: neighbours in memory are compared at once
        highest = picture[..., 0:rows:height, :]
        for row in range(1, height):
            highest = torch.maximum(highest, picture[..., row:rows:height, :])
        largest = highest[..., 0:columns:width]
        for column in range(1, width):
            largest = torch.maximum(largest, highest[..., column:columns:width])
        largest = largest.contiguous()
        ctx.save_for_backward(picture, largest)
        ctx.window = (height, width)
        return largest

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (g,) = grads
        picture, largest = ctx.saved_tensors
        height, width = ctx.window
        # Somebody may differentiate the gradient: what is written in place has no derivative.
        if torch.is_grad_enabled():
            return _by_torch(g, picture, height, width), None, None
        return _placed(g, picture, largest, height, width), None, None


def _placed(
    g: Tensor,
    picture: Tensor,
    largest: Tensor,
    height: int,
    width: int,
) -> Tensor:
    """g at the first place of each window that has its largest number, 0 elsewhere."""
    rows = _whole(picture.shape[-2], height)
    columns = _whole(picture.shape[-1], width)
    placed = torch.empty_like(picture)
    # what no window covers
    placed[..., rows:, :] = 0.0
    placed[..., columns:] = 0.0
    left = g
    last = (height - 1, width - 1)
    for row in range(height):
        for column in range(width):
            here = (..., slice(row, rows, height), slice(column, columns, width))
            if (row, column) == last:
                placed[here] = left
                continue
            # 0 where the largest number is, 1 elsewhere: a product is much faster than a choice
            further = torch.sub(largest, picture[here]).sign_().mul_(left)
            torch.sub(left, further, out=placed[here])
            left = further
    return placed


def _by_torch(g: Tensor, picture: Tensor, height: int, width: int) -> Tensor:
    """The same by an operation that has a derivative."""
    window = [height, width]
    _, places = nn.functional.max_pool2d(picture.detach(), window, return_indices=True)
    placed = torch.ops.aten.max_pool2d_with_indices_backward(
        g,
        picture,
        window,
        window,
        [0, 0],
        [1, 1],
        False,
        places,
    )
    return cast(Tensor, placed)


def _whole(size: int, window: int) -> int:
    """How many of the rows or columns are in windows."""
    return size // window * window
