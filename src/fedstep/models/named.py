"""Models as text: `logistic(inputs=784, classes=62)`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedstep.core.calls import Language
from fedstep.core.types import Batch
from fedstep.core.vec import Vec
from fedstep.models import paper
from fedstep.models.flat import FlatModel, seeded
from fedstep.models.function import FunctionModel
from fedstep.models.module import ModuleModel

PLANE_START = (0.24, 1.0)


def plane() -> FunctionModel:
    """The two-parameter least squares of the paper's Figure 1, from its starting point."""
    return FunctionModel(squares, torch.tensor(PLANE_START, dtype=torch.float64))


def squares(x: Vec, batch: Batch) -> Tensor:
    """(a . x - b)^2 for every sample (a, b)."""
    return (batch.inputs @ x - batch.targets) ** 2


MAKERS = (
    paper.logistic,
    paper.mlp,
    paper.cifar_cnn,
    paper.resnet18,
    paper.char_lstm,
    paper.leaf_lstm,
    plane,
)
_LANGUAGE = Language(
    "model", {m.__name__: m for m in MAKERS}, {}, "logistic(inputs=784, classes=62)", "3"
)


def named(text: str, seed: int) -> FlatModel:
    """The model that a text names; its start depends on the seed alone.

    >>> named("logistic(inputs=4, classes=3)", seed=0).dim
    15
    """
    with seeded(seed, torch.device("cpu")):
        made = _LANGUAGE.build(text)
    return ModuleModel(made) if isinstance(made, nn.Module) else made
