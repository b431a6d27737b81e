"""The model, and the handwritten digits dealt to clients by their classes."""

from __future__ import annotations

import torch
from torch import nn


def net() -> nn.Module:
    """A small network, the same on every machine."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def samples(client: int, clients: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The images of one client: sorted by class, then cut, so that clients differ."""
    # here: the server has no data, and need not import it
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = digits.target.argsort(kind="stable")
    begin = len(order) * client // clients
    end = len(order) * (client + 1) // clients
    chosen = order[begin:end]
    inputs = torch.tensor(digits.data[chosen] / 16, dtype=torch.float32)
    return inputs, torch.tensor(digits.target[chosen])
