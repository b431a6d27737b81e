"""The models of the paper's experiments."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.core.vec import Vec
from fedstep.models.function import FunctionModel

PLANE_START = (0.24, 1.0)


def logistic(inputs: int = 784, classes: int = 62) -> nn.Module:
    """Multinomial logistic regression, W x + b.

    For FEMNIST: the authors' release has 10 classes, LEAF 62.
    """
    _check_counts("logistic", inputs=inputs, classes=classes)
    return nn.Linear(inputs, classes)


def mlp(inputs: int, hidden: int, classes: int) -> nn.Module:
    """One hidden layer of rectified units."""
    _check_counts(
        "mlp",
        inputs=inputs,
        hidden=hidden,
        classes=classes,
    )
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def cifar_cnn(classes: int = 10) -> nn.Module:
    """The CNN of the FedExP experiments for normalised images `[n, 3, 32, 32]`.

        conv 5x5 32, relu, pool 2, conv 5x5 64, relu, pool 2, fc 384, relu, fc 192, relu, fc C

    The convolutions are not padded: 32 -> 28 -> 14 -> 10 -> 5, so 64 * 5 * 5 = 1600 numbers enter
    the first fc.
    """
    _check_counts("cifar_cnn", classes=classes)
    return nn.Sequential(
        nn.Conv2d(3, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        # counted from behind: inside a vmapped block there is no axis of samples to count from
        nn.Flatten(-3),
        nn.Linear(64 * 5 * 5, 384),
        nn.ReLU(),
        nn.Linear(384, 192),
        nn.ReLU(),
        nn.Linear(192, classes),
    )


def lenet(classes: int = 10) -> nn.Module:
    """LeNet-5 (LeCun et al., 1998) with rectified units, for normalised images `[n, 3, 32, 32]`.

        conv 5x5 6, relu, pool 2, conv 5x5 16, relu, pool 2, fc 120, relu, fc 84, relu, fc C

    62,006 parameters for ten classes: a deep network of which two cores can train many.
    """
    _check_counts("lenet", classes=classes)
    return nn.Sequential(*_lenet_layers(channels=3, side=32, classes=classes))


def femnist_cnn(classes: int = 62) -> nn.Module:
    """The same network for FEMNIST, whose images come as rows `[n, 784]`.

    Two convolutions without padding, 28 -> 24 -> 12 -> 8 -> 4, so 16 * 4 * 4 = 256 numbers enter
    the first fc: 48,846 parameters, as many as the softmax regression has.
    """
    _check_counts("femnist_cnn", classes=classes)
    return nn.Sequential(
        nn.Unflatten(-1, (1, 28, 28)),
        *_lenet_layers(channels=1, side=28, classes=classes),
    )


def _lenet_layers(channels: int, side: int, classes: int) -> list[nn.Module]:
    # a convolution of 5x5 takes four pixels of the side, a pool the half of it
    last_side = ((side - 4) // 2 - 4) // 2
    return [
        nn.Conv2d(channels, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(-3),
        nn.Linear(16 * last_side * last_side, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    ]


def resnet18(classes: int = 10, groups: int = 2, width: int = 64) -> nn.Module:
    """ResNet-18 (He et al., 2016) for normalised 32x32 images, with GroupNorm.

    GroupNorm stands in place of BatchNorm (Hsieh et al., 2020). 3x3 stem, no max-pool, two basic
    blocks at each of 1, 2, 4, 8 times `width` channels, mean over the last 4x4 maps, one linear
    layer. The authors pool 3x3 instead, which leaves out the last row and column.
    """
    _check_counts("resnet18", classes=classes, groups=groups, width=width)
    if width % groups:
        raise InputError(f"resnet18(groups={groups}): must divide width={width}")
    # of the stem and of the eight blocks
    widths = [width * times for times in (1, 1, 1, 2, 2, 4, 4, 8, 8)]
    blocks = [Residual(before, after, groups) for before, after in pairwise(widths)]
    return nn.Sequential(
        nn.Conv2d(
            3,
            width,
            3,
            padding=1,
            bias=False,
        ),
        nn.GroupNorm(groups, width),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(-3),
        nn.Linear(8 * width, classes),
    )


class Residual(nn.Module):
    """A basic block: relu(norm conv relu norm conv x + shortcut x).

    Where the width grows the maps are halved.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        groups: int,
    ) -> None:
        super().__init__()
        stride = 1
        if inputs != outputs:
            stride = 2
        # no biases: the norm behind a convolution takes them away again
        self.body = nn.Sequential(
            nn.Conv2d(
                inputs,
                outputs,
                3,
                stride,
                padding=1,
                bias=False,
            ),
            nn.GroupNorm(groups, outputs),
            nn.ReLU(),
            nn.Conv2d(
                outputs,
                outputs,
                3,
                padding=1,
                bias=False,
            ),
            nn.GroupNorm(groups, outputs),
        )
        # where the shapes differ the shortcut has to change them too
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1:
            projection = nn.Conv2d(
                inputs,
                outputs,
                1,
                stride,
                bias=False,
            )
            self.shortcut = nn.Sequential(projection, nn.GroupNorm(groups, outputs))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


class CharLSTM(nn.Module):
    """The next symbol's logits after the last of `[n, time]` symbols of any integer type."""

    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        hidden: int,
        layers: int,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(
            embedding,
            hidden,
            layers,
            batch_first=True,
        )
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, symbols: Tensor) -> Tensor:
        # symbols are kept as bytes, an eighth of the memory that an embedding wants
        states, _ = self.lstm(self.embedding(symbols.long()))
        logits: Tensor = self.head(states[:, -1])
        return logits


def char_lstm(
    vocabulary: int = 81,
    embedding: int = 32,
    hidden: int = 64,
    layers: int = 1,
) -> nn.Module:
    """The paper's Shakespeare model.

    81 symbols are LEAF's 80 and one for the unknown (the authors count 68).
    """
    _check_counts(
        "char_lstm",
        vocabulary=vocabulary,
        embedding=embedding,
        hidden=hidden,
        layers=layers,
    )
    return CharLSTM(
        vocabulary,
        embedding,
        hidden,
        layers,
    )


def leaf_lstm(vocabulary: int = 81) -> nn.Module:
    """LEAF's Shakespeare model (Caldas et al., 2018): embedding 8, two layers of 256."""
    return char_lstm(
        vocabulary,
        embedding=8,
        hidden=256,
        layers=2,
    )


def plane() -> FunctionModel:
    """The two-parameter least squares of the paper's Figure 1, from its starting point."""
    # float64: the figure goes down to 1e-18
    return FunctionModel(_squares, torch.tensor(PLANE_START, dtype=torch.float64))


def _squares(x: Vec, batch: Batch) -> Tensor:
    """(a . x - b)^2 for every sample (a, b)."""
    return (batch.inputs @ x - batch.targets) ** 2


def _check_counts(model: str, **values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise InputError(f"{model}({name}={value}): must be 1 or more")
