"""Problems on which nothing was chosen: written down after the parts of fedpace were fixed."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from problems import NET, Problem, Samples, bundled, digits, folder, libsvm, mnist
from sklearn import datasets

SEED = 3  # of the generated samples


def generated(maker: str, *sizes: int, **settings: float) -> Callable[[], Samples]:
    """Samples of a generator of scikit-learn's."""

    @cache
    def make() -> Samples:
        x, y = getattr(datasets, f"make_{maker}")(*sizes, random_state=SEED, **settings)
        return torch.tensor(x).float(), torch.tensor(y)

    return make


def wrong_labels() -> Samples:
    """Digits, a fifth of them with a label at random."""
    x, y = digits()()
    g = torch.Generator().manual_seed(1)
    wrong = torch.rand(len(y), generator=g) < 0.2
    y = y.clone()
    y[wrong] = torch.randint(0, 10, (int(wrong.sum()),), generator=g)
    return x, y


def columns_of_any_size() -> Samples:
    """Digits, every column times exp(2 z)."""
    x, y = digits()()
    g = torch.Generator().manual_seed(2)
    return x * torch.exp(2 * torch.randn(x.shape[1], generator=g)), y


def one_digit() -> Samples:
    """Is it a 3?"""
    x, y = digits()()
    return x, (y == 3).long()


def far_from_zero() -> Samples:
    x, y = bundled("digits")
    return x / 16 + 10, y


@cache
def communities() -> Samples:
    """Communities and Crime: the columns that are complete, and the last one to be predicted."""
    with (folder() / "uci" / "communities.data.csv").open() as file:
        rows = [[_number(text) for text in row] for row in csv.reader(file) if row]
    table = np.array(rows)
    table = table[~np.isnan(table[:, -1])]
    table = table[:, 5:]  # before: names and numbers of places
    complete = table[:, ~np.isnan(table).any(axis=0)]
    return torch.tensor(complete[:, :-1]).float(), torch.tensor(complete[:, -1])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


EQUAL = {"alpha": None, "regression": True, "clients": 20, "per_round": 5}
HELD_OUT = (
    Problem(
        "five classes, a tenth wrong",
        generated(
            "classification",
            3000,
            20,
            n_informative=8,
            n_classes=5,
            n_clusters_per_class=2,
            flip_y=0.1,
        ),
        (32,),
        alpha=0.1,
    ),
    Problem("moons", generated("moons", 1500, noise=0.2), (16,), clients=20),
    Problem(
        "circles",
        generated("circles", 1500, noise=0.1, factor=0.5),
        (16, 16),
        alpha=0.1,
        clients=20,
    ),
    Problem("friedman (R2)", generated("friedman1", 1500, 10, noise=1.0), (32,), **EQUAL),
    Problem(
        "targets of 300 (R2)",
        generated("regression", 1200, 15, n_informative=8, noise=20.0, bias=300.0),
        **EQUAL,
    ),
    Problem("communities (R2)", communities, (32,), **EQUAL),
    Problem("digits, a fifth wrong", wrong_labels, NET),
    Problem("digits + 10", far_from_zero, NET),
    Problem("digits, columns of any size", columns_of_any_size, NET, alpha=0.1),
    Problem("one digit or another", one_digit, (32,), alpha=0.05),
    Problem("digits, 512 units", digits(), (512,), alpha=0.1, steps=50, batch=16),
    Problem("digits / 100, 60 rounds", digits(0.01), NET, alpha=0.1, rounds=60),
    Problem(
        "digits, all clients, one step of 16",
        digits(),
        NET,
        alpha=0.1,
        per_round=30,
        steps=1,
        batch=16,
        rounds=60,
    ),
    Problem("a8a, network", libsvm("a8a", 5000), (32,), alpha=0.1),
    Problem("w8a, network", libsvm("w8a", 6000), (32,)),
    Problem("MNIST, 3 x 64 units", mnist, (64, 64, 64), alpha=0.1, clients=50),
    Problem(
        "MNIST, linear, 100 of 100 clients", mnist, alpha=0.1, clients=100, per_round=100, steps=5
    ),
    Problem("MNIST, full batches", mnist, (32,), clients=50, steps=20, batch=10000),
)
