"""Handwritten digits."""

from __future__ import annotations

from pathlib import Path

from fedstep.data.sets.record import FromFiles, Samples

HUB = "ylecun/mnist"


def _read(
    folder: Path,
    split: str,
) -> Samples:
    from fedstep.data.idx import mnist

    return Samples(*mnist(folder, train=split == "train"))


def _fetch(train: bool) -> Samples:
    from fedstep.data.hub import hub_columns

    return Samples(
        *hub_columns(
            HUB,
            train,
            "image",
            "label",
        )
    )


MNIST = FromFiles(
    name="mnist",
    what="handwritten digits, 28 x 28",
    # Fashion-MNIST and KMNIST have the same files: a folder of theirs is read the same way
    folders=("mnist",),
    needs=(
        ("train-images-idx3-ubyte",),
        ("train-labels-idx1-ubyte",),
        ("t10k-images-idx3-ubyte",),
        ("t10k-labels-idx1-ubyte",),
    ),
    read_split=_read,
    hub=HUB,
    fetch=_fetch,
)
