"""The tasks that a study can name: where their files are, how they are split, what is held out."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from fedstep.core.errors import InputError, unknown
from fedstep.data import cifar, hub, idx, leaf
from fedstep.data.cache import cached, fingerprint, home, keep, kept, place
from fedstep.data.federation import Federation, Transform
from fedstep.data.files import listing
from fedstep.data.partition import Natural, Partitioner
from fedstep.data.parts import partition_hash
from fedstep.data.samples import digits, synthetic

Pair = tuple[Tensor, Tensor]
LIST = "fedstep data list names the files"


class Absent(InputError):
    """There are no files of a task."""


@dataclass(frozen=True)
class Raw:
    """A data set before it is dealt to clients: natural ids where it has them."""

    train: Pair
    test: Pair | None
    ids: Tensor | None = None
    heldout: Pair | None = None
    transform: Transform | None = None


@dataclass(frozen=True)
class Split:
    """A federated task: clients, test samples, samples of unseen clients, and what to record of it."""

    federation: Federation
    test: Pair | None
    heldout: Pair | None
    digest: str
    note: str


@dataclass(frozen=True)
class Images:
    """Bytes to normalised floats; in training a random crop and flip of every image."""

    augment: bool = True

    def __call__(
        self, fields: tuple[Tensor, ...], generator: torch.Generator | None
    ) -> tuple[Tensor, ...]:
        images, *rest = fields
        if self.augment and generator is not None:
            images = cifar.augment(images, generator)
        return cifar.normalise(images), *rest


def directory(given: str | Path | None = None) -> Path:
    """The folder of the data sets: what was given, or FEDSTEP_DATA."""
    chosen = given or os.environ.get("FEDSTEP_DATA")
    if not chosen:
        raise Absent(f"no data directory: give --data DIRECTORY or set FEDSTEP_DATA ({LIST})")
    if not Path(chosen).is_dir():
        raise InputError(f"{chosen} is not a directory: give --data DIRECTORY or set FEDSTEP_DATA")
    return Path(chosen)


def load(
    name: str,
    partition: Partitioner | None,
    data: Path | None = None,
    seed: int = 0,
    limit: int | None = None,
) -> Split:
    """The task dealt to clients; `limit` keeps the first clients only.

    Test samples that also occur in the training data are dropped, and the note says how many.
    """
    raw = read(name, data)
    rule = Natural() if partition is None else partition
    natural = isinstance(rule, Natural)
    if natural and raw.ids is None:
        raise InputError(
            f"task {name} has no natural clients: give a partition such as Dirichlet(alpha=0.3, clients=100)"
        )
    parts = rule(raw.ids if natural and raw.ids is not None else raw.train[1], seed)
    digest = partition_hash(parts)
    test, dropped = without(raw.test, raw.train[0]) if raw.test else (None, 0)
    notes = [
        parts.note,
        f"{dropped} test samples that occur in the training data are left out" if dropped else "",
    ]
    federation = Federation(raw.train, parts[:limit], raw.transform)
    return Split(federation, test, raw.heldout, digest, "; ".join(n for n in notes if n))


def without(test: Pair, train: Tensor) -> tuple[Pair, int]:
    """The test samples whose inputs do not occur in the training data, and how many did."""
    seen = {
        _digest(row) for row in train.numpy()
    }  # digests: the rows themselves would be a second copy of the data
    keep = torch.tensor([_digest(row) not in seen for row in test[0].numpy()])
    return (test[0][keep], test[1][keep]), int((~keep).sum())


def _digest(row: NDArray[Any]) -> bytes:
    return blake2b(row.tobytes(), digest_size=16).digest()


def read(name: str, data: Path | None = None) -> Raw:
    """A task's samples: of its files, else those that `fetch` kept."""
    if name not in TASKS:
        raise InputError(unknown("task", name, list(TASKS)))
    try:
        return TASKS[name](data)
    except Absent:
        train, test = kept(f"hub-{name}-train"), kept(f"hub-{name}-test")
        if train is None or test is None:
            raise
        return _copy(name, train, test)


def fetch(name: str) -> Raw:
    """Download a task from the Hugging Face hub and keep it in the cache, for `read` to find where there are no files."""
    if name not in HUB:
        raise InputError(unknown("task of the hub", name, list(HUB)))
    got = (HUB[name](train) for train in (True, False))
    train, test = (
        _numbered(g) if isinstance(g, leaf.Users) else {"inputs": g[0], "targets": g[1]}
        for g in got
    )
    try:
        keep(f"hub-{name}-train", train)
        keep(f"hub-{name}-test", test)
    except OSError as error:
        raise InputError(
            f"{home()} cannot be written ({error}): set FEDSTEP_CACHE to another directory"
        ) from None
    return _copy(name, train, test)


def _copy(name: str, train: dict[str, Tensor], test: dict[str, Tensor]) -> Raw:
    transform = Images() if name in AUGMENTED else None
    return Raw(_pair(train), _pair(test), train.get("ids"), transform=transform)


def _folder(data: Path | None, *names: str) -> Path:
    """The first of these folders of the data directory that is not empty."""
    root = directory(data)
    folder = next(
        (root / n for n in names if (root / n).is_dir() and any((root / n).iterdir())), None
    )
    if folder is None:
        raise Absent(f"{root / names[0]} is not there or empty: put the files there ({LIST})")
    return folder


def _femnist(data: Path | None) -> Raw:
    root = _folder(data, "femnist")
    train, test = (_users(root / split, leaf.femnist, split) for split in ("train", "test"))
    heldout = (
        _users(root / "heldout", leaf.femnist, "heldout") if (root / "heldout").is_dir() else None
    )
    unseen = None if heldout is None else _pair(heldout)
    return Raw(_pair(train), _pair(test), train["ids"], unseen)


def _ink(data: Path | None) -> Raw:
    """FEMNIST with ink 1 and background 0, as MNIST has it; LEAF has white 1, which conditions linear models badly."""
    raw = read("femnist", data)

    def inverted(pair: Pair, split: str) -> Pair:
        try:
            files = listing(_folder(data, "femnist") / split, ".json")
        except Absent:
            files = [place(f"hub-femnist-{split}")]
        return cached(
            f"ink-{split}-{fingerprint(files, 'ink', 1)}", lambda: {"inputs": 1 - pair[0]}
        )["inputs"], pair[1]

    test, heldout = (
        None if pair is None else inverted(pair, split)
        for split, pair in (("test", raw.test), ("heldout", raw.heldout))
    )
    return replace(raw, train=inverted(raw.train, "train"), test=test, heldout=heldout)


def _shakespeare(data: Path | None) -> Raw:
    root = _folder(data, "shakespeare/leaf")
    train, test = (_users(root / split, leaf.shakespeare, split) for split in ("train", "test"))
    return Raw(_pair(train), _pair(test), train["ids"])


def _users(folder: Path, reader: Callable[[Path], leaf.Users], split: str) -> dict[str, Tensor]:
    """A LEAF split with the number of every sample's user."""
    files = listing(folder, ".json")
    return cached(
        f"{reader.__name__}-{split}-{fingerprint(files, 'leaf', 1)}",
        lambda: _numbered(reader(folder)),
    )


def _numbered(users: leaf.Users) -> dict[str, Tensor]:
    ids = torch.empty(len(users.targets), dtype=torch.int64)
    for number, part in enumerate(users.parts):
        ids[part] = number
    return {"inputs": users.inputs, "targets": users.targets, "ids": ids}


def _pair(tensors: dict[str, Tensor]) -> Pair:
    return tensors["inputs"], tensors["targets"]


def _arrays(folder: Path, reader: Callable[[Path, bool], Pair], split: str) -> Pair:
    """One split of a data set without users."""

    def make() -> dict[str, Tensor]:
        inputs, targets = reader(folder, split == "train")
        return {"inputs": inputs, "targets": targets}

    files = [p for p in folder.iterdir() if p.is_file()]
    return _pair(cached(f"{reader.__name__}-{split}-{fingerprint(files, 'arrays', 1)}", make))


def _images(reader: Callable[..., Pair], *folders: str) -> Callable[[Path | None], Raw]:
    def make(data: Path | None) -> Raw:
        root = _folder(data, *folders)
        transform = Images() if reader.__name__ in AUGMENTED else None
        return Raw(
            _arrays(root, reader, "train"), _arrays(root, reader, "test"), transform=transform
        )

    return make


def _plane(data: Path | None) -> Raw:
    """The paper's Figure 1: two clients with one equation each, w1 + w2 = 3 and w1 + 2 w2 = 3."""
    a = torch.tensor([[1.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    return Raw((a, torch.tensor([3.0, 3.0], dtype=torch.float64)), None, torch.arange(2))


def _embedded(make: Callable[[int], Pair]) -> Callable[[Path | None], Raw]:
    """A data set that needs no files: every fifth sample is for testing."""

    def raw(data: Path | None) -> Raw:
        x, y = make(0)
        held = torch.arange(len(y)) % 5 == 0
        return Raw((x[~held], y[~held]), (x[held], y[held]))

    return raw


AUGMENTED = ("cifar10", "cifar100")
TASKS: dict[str, Callable[[Path | None], Raw]] = {
    "femnist": _femnist,
    "femnist-ink": _ink,
    "shakespeare": _shakespeare,
    "cifar10": _images(cifar.cifar10, "cifar-10-batches-bin", "cifar-10-batches-py"),
    "cifar100": _images(cifar.cifar100, "cifar-100-binary", "cifar-100-python"),
    "mnist": _images(idx.mnist, "mnist"),
    "digits": _embedded(digits),
    "synthetic": _embedded(synthetic),
    "plane": _plane,
}
HUB: dict[str, Callable[[bool], Pair | leaf.Users]] = {
    "femnist": hub.femnist,
    "shakespeare": hub.shakespeare,
    "cifar10": hub.cifar10,
    "cifar100": hub.cifar100,
    "mnist": hub.mnist,
}


def plain(split: Split) -> Split:
    """The split without augmentation."""
    transform = split.federation.transform
    if not isinstance(transform, Images):
        return split
    return replace(split, federation=replace(split.federation, transform=Images(augment=False)))
