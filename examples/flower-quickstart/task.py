"""The model and the data of the quickstart: handwritten digits, dealt evenly."""

from __future__ import annotations

import torch
from flwr.app import Context
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """A small convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(8 * 4 * 4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images of 8 x 8 pixels to ten scores."""
        x = self.pool(torch.relu(self.conv(x)))
        return self.head(x.flatten(1))


def data_of(context: Context, batch: int = 32) -> tuple[DataLoader, DataLoader]:
    """The partition of a node: four fifths to train on, the rest to evaluate on."""
    partition = context.node_config["partition-id"]
    partitions = context.node_config["num-partitions"]
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(42))
    own = order[partition::partitions]
    cut = len(own) * 4 // 5
    train = TensorDataset(images[own[:cut]], labels[own[:cut]])
    held = TensorDataset(images[own[cut:]], labels[own[cut:]])
    return DataLoader(train, batch, shuffle=True), DataLoader(held, batch)


def train(net: nn.Module, loader: DataLoader, epochs: int, lr: float) -> float:
    """Plain SGD with a learning rate that somebody had to choose; returns the mean loss."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    total = 0.0
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (epochs * len(loader))


@torch.no_grad()
def test(net: nn.Module, loader: DataLoader) -> tuple[float, float]:
    """Mean loss and accuracy."""
    loss = 0.0
    correct = 0
    for images, labels in loader:
        scores = net(images)
        loss += nn.functional.cross_entropy(scores, labels, reduction="sum").item()
        correct += int((scores.argmax(1) == labels).sum())
    count = len(loader.dataset)
    return loss / count, correct / count
