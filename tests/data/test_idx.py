"""IDX files become images and labels, or an error that names the file."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fedstep.core.errors import InputError
from fedstep.data.idx import emnist, mnist

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
LABELS = np.array([9, 0, 4], np.uint8)


def idx(array: np.ndarray, kind: int = 8) -> bytes:
    return (
        bytes((0, 0, kind, array.ndim))
        + struct.pack(f">{array.ndim}i", *array.shape)
        + array.tobytes()
    )


def save(directory: Path, images: bytes, labels: bytes, stem: str = "train") -> Path:
    (directory / f"{stem}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
    (directory / f"{stem}-labels-idx1-ubyte").write_bytes(labels)
    return directory


def test_mnist_pixels_and_labels_are_those_of_the_files(tmp_path: Path) -> None:
    inputs, targets = mnist(save(tmp_path, idx(IMAGES), idx(LABELS)))
    torch.testing.assert_close(inputs, torch.from_numpy(IMAGES.reshape(3, 784) / 255).float())
    assert targets.tolist() == [9, 0, 4]
    assert targets.dtype == torch.int64


def test_the_test_part_is_read_from_t10k(tmp_path: Path) -> None:
    save(tmp_path, idx(IMAGES[:1]), idx(LABELS[:1]), "t10k")
    assert mnist(tmp_path, train=False)[1].tolist() == [9]
    with pytest.raises(InputError, match="train-images-idx3-ubyte is not in"):
        mnist(tmp_path)


def test_emnist_images_come_out_upright_and_letters_from_zero(tmp_path: Path) -> None:
    save(tmp_path, idx(IMAGES), idx(np.array([1, 26, 5], np.uint8)), "emnist-letters-train")
    inputs, targets = emnist(tmp_path, "letters")
    assert targets.tolist() == [0, 25, 4]
    torch.testing.assert_close(inputs[1].view(28, 28), torch.from_numpy(IMAGES[1].T / 255).float())
    with pytest.raises(InputError, match="'leters'"):
        emnist(tmp_path, "leters")


BAD = {
    "wrong magic": (b"\x00\x00\x08\x01" + idx(IMAGES)[4:], idx(LABELS)),
    "not bytes": (idx(IMAGES, kind=13), idx(LABELS)),
    "images cut short": (idx(IMAGES)[:-1], idx(LABELS)),
    "images too long": (idx(IMAGES) + b"\x00", idx(LABELS)),
    "header cut short": (idx(IMAGES)[:9], idx(LABELS)),
    "empty": (b"", idx(LABELS)),
    "no images": (idx(IMAGES[:0]), idx(LABELS[:0])),
    "wrong shape": (idx(IMAGES[:, :27]), idx(LABELS)),
    "fewer labels": (idx(IMAGES), idx(LABELS[:2])),
    "label too large": (idx(IMAGES), idx(np.array([9, 10, 4], np.uint8))),
}


@pytest.mark.parametrize("case", BAD)
def test_a_broken_idx_file_is_an_input_error(tmp_path: Path, case: str) -> None:
    save(tmp_path, *BAD[case])
    with pytest.raises(InputError, match=str(tmp_path)):
        mnist(tmp_path)


def test_a_label_outside_the_range_is_named_with_its_place(tmp_path: Path) -> None:
    save(tmp_path, *BAD["label too large"])
    with pytest.raises(InputError, match=r"label 10 of sample 1 is outside 0\.\.9"):
        mnist(tmp_path)


def test_a_letter_zero_is_outside_the_range(tmp_path: Path) -> None:
    save(tmp_path, idx(IMAGES), idx(np.array([1, 0, 5], np.uint8)), "emnist-letters-train")
    with pytest.raises(InputError, match=r"label 0 of sample 1 is outside 1\.\.26"):
        emnist(tmp_path, "letters")


def test_the_real_mnist_test_part_has_the_known_class_counts(shared: Callable[[str], Path]) -> None:
    inputs, targets = mnist(shared("mnist"), train=False)
    assert inputs.shape == (10_000, 784)
    assert targets.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
