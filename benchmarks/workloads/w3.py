"""W3: the next character after 80, by a 2 x 256 LSTM (embedding 8, 81 symbols). 5 clients x 200 sequences, one epoch of batch 50.

Every symbol is followed by one of four others, so the last one tells much about the next.
"""

from __future__ import annotations

import numpy as np

from work import Work, uniform

SIZES = {"full": (5, 200, 80), "smoke": (2, 20, 5)}  # clients, sequences, length
SYMBOLS, EMBEDDING, HIDDEN = 81, 8, 256


def make(scale: str) -> Work:
    clients, sequences, length = SIZES[scale]
    rng = np.random.default_rng(3)
    follows = rng.integers(SYMBOLS, size=(SYMBOLS, 4))
    text = np.empty((clients, sequences, length + 1), np.int64)
    text[..., 0] = rng.integers(SYMBOLS, size=(clients, sequences))
    for t in range(length):
        text[..., t + 1] = follows[text[..., t], rng.integers(4, size=(clients, sequences))]
    start = {"embedding.weight": rng.normal(size=(SYMBOLS, EMBEDDING)).astype(np.float32)}
    for layer, inputs in enumerate((EMBEDDING, HIDDEN)):
        start |= {
            f"lstm.weight_ih_l{layer}": uniform(rng, HIDDEN, 4 * HIDDEN, inputs),
            f"lstm.weight_hh_l{layer}": uniform(rng, HIDDEN, 4 * HIDDEN, HIDDEN),
            f"lstm.bias_ih_l{layer}": uniform(rng, HIDDEN, 4 * HIDDEN),
            f"lstm.bias_hh_l{layer}": uniform(rng, HIDDEN, 4 * HIDDEN),
        }
    start |= {
        "head.weight": uniform(rng, HIDDEN, SYMBOLS, HIDDEN),
        "head.bias": uniform(rng, HIDDEN, SYMBOLS),
    }
    batch = 50 if scale == "full" else 10
    return Work("w3", text[..., :-1], text[..., -1], start, step=0.5, epochs=1, batch=batch)


def module():
    from torch import nn

    class CharLSTM(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(SYMBOLS, EMBEDDING)
            self.lstm = nn.LSTM(EMBEDDING, HIDDEN, 2, batch_first=True)
            self.head = nn.Linear(HIDDEN, SYMBOLS)

        def forward(self, symbols):
            states, _ = self.lstm(self.embedding(symbols))
            return self.head(states[:, -1])

    return CharLSTM()


def logits(p, x):
    from jax import lax, nn
    from jax import numpy as jnp

    series = p["embedding.weight"][x].swapaxes(0, 1)  # time first
    for layer in (0, 1):
        recurrent = p[f"lstm.weight_hh_l{layer}"].T
        bias = p[f"lstm.bias_ih_l{layer}"] + p[f"lstm.bias_hh_l{layer}"]
        driven = series @ p[f"lstm.weight_ih_l{layer}"].T + bias

        def cell(state, z, recurrent=recurrent):
            h, c = state
            i, f, g, o = jnp.split(z + h @ recurrent, 4, axis=-1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
            h = nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = 0 * driven[0, :, :HIDDEN]
        _, series = lax.scan(cell, (zero, zero), driven)
    return series[-1] @ p["head.weight"].T + p["head.bias"]
