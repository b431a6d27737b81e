"""Colour images of a hundred kinds of things; cropped and mirrored at random in training."""

from __future__ import annotations

from pathlib import Path

from fedstep.data.sets.cifar10 import colour_images
from fedstep.data.sets.record import FromFiles, Samples

HUB = "uoft-cs/cifar100"


def _read(
    folder: Path,
    split: str,
) -> Samples:
    from fedstep.data.cifar import cifar100

    return Samples(*cifar100(folder, train=split == "train"))


def _fetch(train: bool) -> Samples:
    from fedstep.data.hub import hub_columns

    return Samples(
        *hub_columns(
            HUB,
            train,
            "img",
            "fine_label",
        )
    )


# no label names: a hundred words would not fit beside any figure
CIFAR100 = FromFiles(
    name="cifar100",
    what="colour images, 100 classes",
    transform=colour_images,
    folders=("cifar-100-binary", "cifar-100-python"),
    needs=(("train.bin", "train"), ("test.bin", "test")),
    read_split=_read,
    hub=HUB,
    fetch=_fetch,
)
