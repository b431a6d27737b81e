"""W2: CIFAR CNN (conv 5x5 32, conv 5x5 64, fc 384, fc 192, fc 10). 10 clients x 500 images, one epoch of batch 50.

The images are smooth class means plus noise, with mean about 0 and deviation about 1 as normalised photographs have.
"""

from __future__ import annotations

import numpy as np

from work import Work, uniform

SIZES = {"full": (10, 500), "smoke": (2, 20)}  # clients, samples


def make(scale: str) -> Work:
    clients, samples = SIZES[scale]
    rng = np.random.default_rng(2)
    means = np.kron(rng.normal(size=(10, 3, 4, 4)), np.ones((1, 1, 8, 8)))
    targets = rng.integers(10, size=(clients, samples))
    noise = rng.normal(size=(clients, samples, 3, 32, 32))
    inputs = (0.7 * means[targets] + 0.7 * noise).astype(np.float32)
    layers = {
        "0": (32, 3, 5, 5),
        "3": (64, 32, 5, 5),
        "7": (384, 1600),
        "9": (192, 384),
        "11": (10, 192),
    }
    start = {}
    for name, shape in layers.items():
        fan_in = int(np.prod(shape[1:]))
        start |= {
            f"{name}.weight": uniform(rng, fan_in, *shape),
            f"{name}.bias": uniform(rng, fan_in, shape[0]),
        }
    return Work(
        "w2", inputs, targets, start, step=0.05, epochs=1, batch=50 if scale == "full" else 10
    )


def module():
    from torch import nn

    features = [
        nn.Conv2d(3, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
    ]
    head = [nn.Linear(1600, 384), nn.ReLU(), nn.Linear(384, 192), nn.ReLU(), nn.Linear(192, 10)]
    return nn.Sequential(*features, nn.Flatten(-3), *head)


def logits(p, x):
    import jax
    from jax import lax, nn

    for layer in "0", "3":
        x = lax.conv_general_dilated(
            x, p[f"{layer}.weight"], (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW")
        )
        x = nn.relu(x + p[f"{layer}.bias"][:, None, None])
        x = lax.reduce_window(x, -jax.numpy.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    x = x.reshape(len(x), -1)
    for layer in "7", "9":
        x = nn.relu(x @ p[f"{layer}.weight"].T + p[f"{layer}.bias"])
    return x @ p["11.weight"].T + p["11.bias"]
