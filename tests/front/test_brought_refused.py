"""What cannot work is refused in one line that names the remedy; nothing has been trained by then."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune, spectral_norm
from torch.utils.data import Dataset, TensorDataset

import fedstep
from fedstep.callbacks import EarlyStopping


def clients(n=3, size=12):
    g = torch.Generator().manual_seed(1)
    made = []
    for _ in range(n):
        x = torch.randn(size, 4, generator=g)
        made.append((x, (x[:, 0] > 0).long()))
    return made


def net(outputs=2):
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, outputs))


def on_meta():
    with torch.device("meta"):
        return net()


def pruned():
    model = net()
    prune.random_unstructured(model[0], "weight", 0.5)
    return model


class Sparse:
    """In the manner of scipy."""

    nnz = 3

    def toarray(self):
        return np.zeros((3, 4))


class Pictures(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, number):
        return object(), 1


X, Y = clients()[0]
REFUSED = {
    "one pair": (dict(clients=(X, Y)), "one set of samples: give a list"),
    "one Dataset": (dict(clients=TensorDataset(X, Y)), "TensorDataset, one set.*random_split"),
    "a path": (dict(clients="visits.csv"), "clients is a str, one set of samples"),
    "texts as classes": (
        dict(clients=[(X, np.array(["ill", "well"] * 6))]),
        r"client 0, targets: texts.*np\.unique",
    ),
    "texts as inputs": (dict(clients=[(np.array(["a"] * 12), Y)]), "inputs: texts or objects"),
    "dates": (
        dict(clients=[(np.array(["2020-01-01"] * 12, "datetime64[D]"), Y)]),
        "inputs: dates: give numbers",
    ),
    "scipy": (dict(clients=[(Sparse(), Y)]), r"sparse matrix of scipy: give values\.toarray"),
    "a sparse tensor": (dict(clients=[(X.to_sparse(), Y)]), r"sparse tensor.*to_dense"),
    "pictures without a transform": (dict(clients=[Pictures()]), "field 0: no array of numbers"),
    "several labels as classes": (
        dict(clients=[(X, (X[:, :2] > 0).long())]),
        r"targets of shape \(12, 2\) are not one-hot.*loss='bce'",
    ),
    "inputs that are too narrow": (
        dict(model=nn.Linear(5, 2)),
        r"Linear cannot be called with \(3, 4\) float32 .*do not fit",
    ),
    "a test that is too narrow": (
        dict(test=(torch.zeros(5, 3), torch.zeros(5).long())),
        r"^test: Sequential cannot be called with \(3, 3\) float32",
    ),
    "pictures with channels last": (
        dict(
            model=nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(8, 2)),
            clients=[(torch.zeros(12, 4, 4, 3, dtype=torch.uint8), Y)],
        ),
        r"\(3, 4, 4, 3\) uint8 .*channels",
    ),
    "complex inputs": (dict(clients=[(X.to(torch.complex64), Y)]), "complex64"),
    "too few outputs": (
        dict(model=net(3), loss="mse", clients=[(X, X[:, 0])]),
        r"loss mse compares number by number.*\(3, 3\) float32 of predictions.*change the last",
    ),
    "an output without samples": (
        dict(
            model=type("Mean", (nn.Linear,), {"forward": lambda s, x: x.mean() * s.bias[0]})(4, 2)
        ),
        "loss cross_entropy does not take",
    ),
    "no forward": (dict(model=nn.ModuleList([nn.Linear(4, 2)])), "ModuleList cannot be called"),
    "a lazy layer": (dict(model=nn.LazyLinear(2)), "no shape yet.*call the model once on a batch"),
    "the meta device": (dict(model=on_meta()), "meta device and has no values"),
    "torch.jit": (
        dict(model=torch.jit.trace(net(), X)),
        r"compiled by torch\.jit: give the module",
    ),
    "DataParallel": (dict(model=nn.DataParallel(net())), r"give model\.module"),
    "the old spectral norm": (
        dict(model=nn.Sequential(spectral_norm(nn.Linear(4, 2)))),
        "0 of Sequential computes its weight by a hook.*parametrizations",
    ),
    "pruning": (dict(model=pruned()), r"prune\.remove"),
    "nothing to train": (dict(model=net().requires_grad_(False)), "nothing to train"),
    "one callback": (dict(callbacks=EarlyStopping()), r"callbacks=EarlyStopping.*give a list"),
    "metrics of nothing": (dict(metrics=["accuracy"]), "nothing to measure them on: give test="),
    "no such loss": (dict(loss="hubber"), "did you mean huber"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_in_one_line(case):
    options, message = REFUSED[case]
    given = {"model": net(), "clients": clients(), "progress": False, "rounds": 1, **options}
    with pytest.raises(fedstep.InputError, match=message) as caught:
        fedstep.fit(**given)
    assert "\n" not in str(caught.value)


def test_an_error_of_the_users_code_stays_in_sight():
    class Mine(nn.Linear):
        def forward(self, x):
            raise KeyError("my own mistake")

    with pytest.raises(fedstep.InputError, match="KeyError: 'my own mistake'") as caught:
        fedstep.fit(Mine(4, 2), clients(), rounds=1, progress=False)
    assert isinstance(caught.value.__cause__, KeyError)
