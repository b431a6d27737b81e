"""Models as text: `logistic(inputs=784, classes=62)`."""

from __future__ import annotations

import torch
from torch import nn

from fedstep.core.calls import Language
from fedstep.core.errors import InputError, brief
from fedstep.models import paper
from fedstep.models.flat import FlatModel
from fedstep.models.module import ModuleModel
from fedstep.models.seeded import seeded

MAKERS = (
    paper.logistic,
    paper.mlp,
    paper.cifar_cnn,
    paper.lenet,
    paper.femnist_cnn,
    paper.resnet18,
    paper.char_lstm,
    paper.leaf_lstm,
    paper.plane,
)
_LANGUAGE = Language(
    "model",
    {maker.__name__: maker for maker in MAKERS},
    {},
    "logistic(inputs=784, classes=62)",
    "3",
)


def named_model(text: str, seed: int) -> FlatModel:
    """The model that a text names; its start depends on the seed alone.

    >>> named_model("logistic(inputs=4, classes=3)", seed=0).dim
    15
    """
    # torch's layers draw their start from the global generator; it is left as it was
    with seeded(seed, torch.device("cpu")):
        try:
            model = _LANGUAGE.build(text)
        except (RuntimeError, MemoryError) as error:
            # such as more numbers than there is memory for
            raise InputError(f"model {brief(text)} cannot be made: {error}") from None
    if isinstance(model, nn.Module):
        return ModuleModel(model)
    flat: FlatModel = model
    return flat
