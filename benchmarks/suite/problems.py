"""The development suite: small federated problems that differ in one thing at a time."""

from __future__ import annotations

import bz2
import gzip
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets
from torch import Tensor, nn

from fedstep.data import Dirichlet
from fedstep.data.federation import Federation

Samples = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Problem:
    """Samples, a model and how a round looks; a seed decides split, deal and start."""

    name: str
    samples: Callable[[], Samples]
    widths: tuple[int, ...] = ()  # of the hidden layers; none: a linear model
    alpha: float | None = 0.3  # of the Dirichlet deal; None: equal shares at random
    clients: int = 30
    per_round: int = 10
    steps: int = 10
    batch: int = 32
    rounds: int = 30
    regression: bool = False

    def task(self, seed: int) -> tuple[nn.Module, Federation, Samples]:
        """Model, clients and test samples."""
        x, y = self.samples()
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(1000 + seed))
        test, train = order[: len(y) // 5], order[len(y) // 5 :]
        outputs = 1 if self.regression else int(y.max()) + 1
        if self.regression:
            y = y.float()[:, None]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = network(x.shape[1], *self.widths, outputs)
        return model, self._federation(x[train], y[train], seed), (x[test], y[test])

    def _federation(self, x: Tensor, y: Tensor, seed: int) -> Federation:
        if self.alpha is None:
            shares = torch.arange(len(y)).chunk(self.clients)
            return Federation.of([(x[share], y[share]) for share in shares])
        return Federation.of(Dirichlet(self.alpha, self.clients)(y, seed=seed).deal(x, y))


def network(*widths: int) -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def digits(scale: float = 1.0) -> Callable[[], Samples]:
    def make() -> Samples:
        x, y = bundled("digits")
        return x / 16 * scale, y

    return make


@cache
def bundled(name: str) -> Samples:
    """A data set of scikit-learn's."""
    made = getattr(datasets, f"load_{name}")()
    return torch.tensor(made.data).float(), torch.tensor(made.target)


def standardised(name: str) -> Callable[[], Samples]:
    def make() -> Samples:
        x, y = bundled(name)
        return (x - x.mean(0)) / x.std(0), y

    return make


def folder() -> Path:
    return Path(os.environ["FEDSTEP_DATA"])


def libsvm(name: str, limit: int = 10**9) -> Callable[[], Samples]:
    @cache
    def make() -> Samples:
        text = bz2.decompress((folder() / "libsvm" / f"{name}.bz2").read_bytes())
        rows, labels = datasets.load_svmlight_file(io.BytesIO(text))
        x = torch.tensor(rows.toarray()).float()
        y = torch.tensor(labels == labels.max()).long()
        some = torch.randperm(len(y), generator=torch.Generator().manual_seed(7))[:limit]
        return x[some], y[some]

    return make


@cache
def mnist() -> Samples:
    """The first 12,000 training images."""

    def array(name: str, offset: int) -> np.ndarray:
        content = gzip.decompress((folder() / "mnist" / name).read_bytes())
        return np.frombuffer(content, np.uint8, offset=offset)

    x = array("train-images-idx3-ubyte.gz", 16).reshape(-1, 784)[:12000]
    y = array("train-labels-idx1-ubyte.gz", 8)[:12000]
    return torch.tensor(x).float() / 255, torch.tensor(y).long()


NET = (64,)
FEW = {"clients": 10, "per_round": 5}
PROBLEMS = (
    Problem("digits", digits(), NET),
    Problem("digits / 100, linear", digits(0.01)),
    Problem("digits / 100", digits(0.01), NET),
    Problem("digits / 10", digits(0.1), NET),
    Problem("digits x 100", digits(100), NET),
    Problem("digits x 1,000", digits(1000), NET),
    Problem("digits, 8 units", digits(), (8,)),
    Problem("digits, 4 x 32 units", digits(), (32, 32, 32, 32)),
    Problem("digits, linear", digits()),
    Problem("digits, Dirichlet 0.03", digits(), NET, alpha=0.03),
    Problem(
        "digits, all clients, one full step",
        digits(),
        NET,
        alpha=None,
        per_round=30,
        steps=1,
        batch=1000,
        rounds=60,
    ),
    Problem("digits, one step of 32", digits(), NET, steps=1, rounds=60),
    Problem("digits, batches of 1", digits(), NET, batch=1),
    Problem("digits, 2 clients x 100 steps", digits(), NET, per_round=2, steps=100),
    Problem("digits, 1 of 100 clients", digits(), NET, clients=100, per_round=1, rounds=60),
    Problem("digits, 100 of 100 clients", digits(), NET, clients=100, per_round=100),
    Problem("wine, raw columns", lambda: bundled("wine"), **FEW),
    Problem("wine", standardised("wine"), **FEW),
    Problem("breast cancer, raw columns", lambda: bundled("breast_cancer"), **FEW),
    Problem("breast cancer", standardised("breast_cancer"), **FEW),
    Problem("iris, raw columns", lambda: bundled("iris"), **FEW),
    Problem("german", libsvm("german_scale"), alpha=0.1, clients=20),
    Problem("a9a", libsvm("a9a", 6000), alpha=0.1),
    Problem("w8a", libsvm("w8a", 8000), alpha=0.1),
    Problem("mushrooms", libsvm("mushrooms", 4000), alpha=0.1),
    Problem("phishing", libsvm("phishing", 5000), (32,), alpha=0.1),
    Problem("MNIST", mnist, NET, clients=100),
    Problem("MNIST, Dirichlet 0.05", mnist, NET, alpha=0.05, clients=100),
    Problem(
        "diabetes (R2)", lambda: bundled("diabetes"), (32,), alpha=None, regression=True, **FEW
    ),
)
