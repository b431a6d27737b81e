"""Data that needs no files: scikit-learn's digits (extra `demo`) and generated clusters."""

from __future__ import annotations

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator


def digits(seed: int = 0) -> tuple[Tensor, Tensor]:
    """1,797 real images of handwritten digits, 8 x 8; the seed changes nothing."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        message = "scikit-learn, which holds the digits, is not installed: pip install 'fedstep[demo]', or use synthetic data"
        raise InputError(message) from None
    x, y = load_digits(return_X_y=True)
    return torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)


def synthetic(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Ten classes of three overlapping clusters each in 40 dimensions."""
    g = generator(seed, "demo clusters")
    centres = torch.randn(30, 40, generator=g)
    which = torch.randint(30, (2000,), generator=g)
    return centres[which] + 1.5 * torch.randn(2000, 40, generator=g), which % 10
