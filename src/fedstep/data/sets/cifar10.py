"""Colour images of ten kinds of things; cropped and mirrored at random in training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedstep.data.sets.record import FromFiles, Samples

if TYPE_CHECKING:
    from fedstep.data.cifar import Images

HUB = "uoft-cs/cifar10"


def _read(
    folder: Path,
    split: str,
) -> Samples:
    from fedstep.data.cifar import cifar10

    return Samples(*cifar10(folder, train=split == "train"))


def _fetch(train: bool) -> Samples:
    from fedstep.data.hub import hub_columns

    return Samples(
        *hub_columns(
            HUB,
            train,
            "img",
            "label",
        )
    )


def colour_images() -> Images:
    """The transform of both CIFAR data sets."""
    from fedstep.data.cifar import Images

    return Images()


CIFAR10 = FromFiles(
    name="cifar10",
    what="colour images, 10 classes",
    labels=(
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
    transform=colour_images,
    # as the archives unpack
    folders=("cifar-10-batches-bin", "cifar-10-batches-py"),
    # the other four batches are read where they are there
    needs=(("data_batch_1.bin", "data_batch_1"), ("test_batch.bin", "test_batch")),
    read_split=_read,
    hub=HUB,
    fetch=_fetch,
)
