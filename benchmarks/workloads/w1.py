"""W1: FEMNIST softmax regression. 20 clients x 227 images of 28 x 28, 62 classes, 20 epochs of batch 50: 100 steps a client.

The images are smooth (7 x 7 cells), class means plus noise, clipped to [0, 1].
"""

from __future__ import annotations

import numpy as np

from work import Work, uniform

SIZES = {"full": (20, 227, 20), "smoke": (3, 27, 2)}  # clients, samples, epochs
NOISE = (
    0.7  # the classes overlap, so that a search needs about 1.5 trials a step, as on real writers
)


def make(scale: str) -> Work:
    clients, samples, epochs = SIZES[scale]
    rng = np.random.default_rng(1)
    means = rng.random((62, 7, 7)) * (rng.random((62, 7, 7)) < 0.3)
    targets = rng.integers(62, size=(clients, samples))
    cells = means[targets] + NOISE * rng.normal(size=(clients, samples, 7, 7))
    inputs = (
        np.kron(np.clip(cells, 0, 1), np.ones((4, 4)))
        .reshape(clients, samples, 784)
        .astype(np.float32)
    )
    start = {"weight": uniform(rng, 784, 62, 784), "bias": uniform(rng, 784, 62)}
    return Work(
        "w1", inputs, targets, start, step=0.05, epochs=epochs, batch=50 if scale == "full" else 10
    )


def module():
    from torch import nn

    return nn.Linear(784, 62)


def logits(p, x):
    return x @ p["weight"].T + p["bias"]
