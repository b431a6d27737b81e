"""Data that needs no files: scikit-learn's digits (extra `demo`) and generated clusters."""

from __future__ import annotations

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator

CLASSES = 10
CLUSTERS = 3 * CLASSES  # three a class, so that no class is one ball
SAMPLES = 2000
WIDTH = 40


def digits(seed: int = 0) -> tuple[Tensor, Tensor]:
    """1,797 real images of handwritten digits, 8 x 8; the seed changes nothing."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise InputError(
            "scikit-learn, which holds the digits, is not installed: "
            "pip install 'fedstep[demo]', or use synthetic data"
        ) from None
    images, labels = load_digits(return_X_y=True)
    # 16 is ink: scikit-learn counts the dark ones among 4 x 4 pixels
    return torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)


def synthetic(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Ten classes of three overlapping clusters each in 40 dimensions."""
    # the order of the draws is part of what a seed means
    g = generator(seed, "demo clusters")
    centres = torch.randn(CLUSTERS, WIDTH, generator=g)
    cluster = torch.randint(
        CLUSTERS,
        (SAMPLES,),
        generator=g,
    )
    noise = torch.randn(SAMPLES, WIDTH, generator=g)
    return centres[cluster] + 1.5 * noise, cluster % CLASSES
