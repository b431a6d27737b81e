"""A round of 1,000 clients that do next to nothing: one step of a model with six parameters on one sample.

What it takes is overhead: seconds divided by 1,000 is the cost of a client.
"""

from __future__ import annotations

import numpy as np

from work import Work, uniform

SIZES = {"full": 1000, "smoke": 8}


def make(scale: str) -> Work:
    rng = np.random.default_rng(0)
    clients = SIZES[scale]
    inputs = rng.normal(size=(clients, 1, 2)).astype(np.float32)
    targets = rng.integers(2, size=(clients, 1))
    start = {"weight": uniform(rng, 2, 2, 2), "bias": uniform(rng, 2, 2)}
    return Work("empty", inputs, targets, start, step=0.1, epochs=1, batch=1)


def module():
    from torch import nn

    return nn.Linear(2, 2)


def logits(p, x):
    return x @ p["weight"].T + p["bias"]
