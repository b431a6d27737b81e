"""Both versions of CIFAR become the same images; a pickle can do nothing but hold data."""

import lzma
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedstep.core.errors import InputError
from fedstep.core.seeds import generator
from fedstep.data.cifar import MEAN, STD, augment, cifar10, cifar100, normalise

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (4, 3072), dtype=np.uint8)
LABELS = [3, 9, 0, 5]
COARSE, FINE = [19, 0, 4, 4], [99, 0, 17, 42]


def records(*columns: list[int], pixels: np.ndarray = PIXELS) -> bytes:
    return np.concatenate([np.array(columns, np.uint8).T, pixels], 1).tobytes()


def python_batch(**entries: Any) -> bytes:
    return pickle.dumps({k.encode(): v for k, v in entries.items()}, protocol=2)


def test_the_binary_version_gives_the_records_of_every_batch_in_order(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1.bin").write_bytes(records(LABELS))
    (tmp_path / "data_batch_2.bin.xz").write_bytes(lzma.compress(records([7], pixels=PIXELS[:1])))
    images, labels = cifar10(tmp_path)
    assert images.shape == (5, 3, 32, 32)
    assert images.dtype == torch.uint8
    assert labels.tolist() == [*LABELS, 7]
    # red, then green, then blue, row by row: green of row 2, column 3 of image 1
    assert images[1, 1, 2, 3] == PIXELS[1, 1024 + 2 * 32 + 3]


def test_a_gap_between_batches_is_refused(tmp_path: Path) -> None:
    for i in (1, 3):
        (tmp_path / f"data_batch_{i}.bin").write_bytes(records(LABELS))
    with pytest.raises(InputError, match=r"data_batch_2\.bin is not in"):
        cifar10(tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    for call, name in ((cifar10, "data_batch_1.bin"), (cifar100, "train.bin")):
        with pytest.raises(InputError, match=name):
            call(tmp_path)
    with pytest.raises(InputError, match=r"test_batch\.bin"):
        cifar10(tmp_path, train=False)


def test_cifar100_has_the_coarse_label_first(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(records(COARSE, FINE))
    assert cifar100(tmp_path)[1].tolist() == FINE
    assert cifar100(tmp_path, coarse=True)[1].tolist() == COARSE
    assert torch.equal(cifar100(tmp_path)[0].flatten(1), torch.from_numpy(PIXELS))


@pytest.mark.parametrize(
    "content", [records(LABELS)[:-1], b"", records([3, 10, 0, 5]), records([255, 0, 0, 0])]
)
def test_a_binary_file_of_wrong_length_or_label_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "test_batch.bin").write_bytes(content)
    with pytest.raises(InputError, match=r"test_batch\.bin"):
        cifar10(tmp_path, train=False)


@pytest.mark.parametrize("pixels", [PIXELS, np.asfortranarray(PIXELS)])
def test_the_python_version_equals_the_binary_one(tmp_path: Path, pixels: np.ndarray) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "test_batch.bin").write_bytes(records(LABELS))
    names = [b"cat.png"] * 4
    (tmp_path / "b" / "test_batch").write_bytes(
        python_batch(data=pixels, labels=LABELS, filenames=names, batch_label=b"t")
    )
    binary, python = (cifar10(tmp_path / d, train=False) for d in "ab")
    assert torch.equal(binary[0], python[0])
    assert torch.equal(binary[1], python[1])


def test_a_pickle_as_python_2_wrote_it_is_read(tmp_path: Path) -> None:
    """Protocol 2 of Python 2: str is SHORT_BINSTRING, and numpy is named by its old modules."""
    raw = bytes(3072)
    state = b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR" + state
    body = (
        b"\x80\x02}(U\x04data" + array + b"\x89T\x00\x0c\x00\x00" + raw + b"tbU\x06labels](K\x06eu."
    )
    (tmp_path / "test_batch").write_bytes(body)
    images, labels = cifar10(tmp_path, train=False)
    assert images.shape == (1, 3, 32, 32)
    assert labels.tolist() == [6]


def test_cifar100_python_version_has_both_labels(tmp_path: Path) -> None:
    (tmp_path / "train").write_bytes(
        python_batch(data=PIXELS, fine_labels=FINE, coarse_labels=COARSE)
    )
    assert cifar100(tmp_path)[1].tolist() == FINE
    assert cifar100(tmp_path, coarse=True)[1].tolist() == COARSE


class Runs:
    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def test_a_pickle_that_asks_to_run_something_is_refused_and_not_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for hostile in (
        Runs(os.mkdir, str(ran)),
        Runs(eval, f"open({str(ran)!r}, 'w')"),
        Runs(getattr, {}, "get"),
    ):
        (tmp_path / "test_batch").write_bytes(python_batch(data=PIXELS, labels=hostile))
        with pytest.raises(InputError, match=r"test_batch is not a plain pickle .*it asks for"):
            cifar10(tmp_path, train=False)
    assert not ran.exists()


def test_a_pickle_cannot_change_what_stands_in_for_numpy(tmp_path: Path) -> None:
    good = python_batch(data=PIXELS, labels=LABELS)
    for name in (b"numpy\nndarray", b"numpy\ndtype", b"_codecs\nencode"):
        build = b"\x80\x02c" + name + b"\nN}U\x05valueK\x01s\x86b."
        (tmp_path / "test_batch").write_bytes(build)
        with pytest.raises(InputError, match="not a plain pickle"):
            cifar10(tmp_path, train=False)
    (tmp_path / "test_batch").write_bytes(good)
    assert cifar10(tmp_path, train=False)[1].tolist() == LABELS


BAD_BATCHES = {
    "cut short": python_batch(data=PIXELS, labels=LABELS)[:-40],
    "empty": b"",
    "not a pickle": b"<html>",
    "not a dict": pickle.dumps([1], 2),
    "no data": python_batch(labels=LABELS),
    "no labels": python_batch(data=PIXELS),
    "wrong width": python_batch(data=PIXELS[:, :3071], labels=LABELS),
    "signed bytes": python_batch(data=PIXELS.view(np.int8), labels=LABELS),
    "not bytes": python_batch(data=PIXELS.astype(np.float32), labels=LABELS),
    "objects": python_batch(data=np.array([None, 1]), labels=LABELS),
    "fewer labels": python_batch(data=PIXELS, labels=LABELS[:3]),
    "labels not whole": python_batch(data=PIXELS, labels=[1.0, 2, 3, 4]),
    "label too large": python_batch(data=PIXELS, labels=[1, 2, 3, 10]),
    "label negative": python_batch(data=PIXELS, labels=[1, 2, 3, -1]),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_broken_python_batch_is_an_input_error(tmp_path: Path, case: str) -> None:
    (tmp_path / "test_batch").write_bytes(BAD_BATCHES[case])
    with pytest.raises(InputError, match="test_batch"):
        cifar10(tmp_path, train=False)


def test_normalise_is_the_formula(tmp_path: Path) -> None:
    images = torch.from_numpy(PIXELS.reshape(4, 3, 32, 32))
    out = normalise(images)
    assert out.dtype == torch.float32
    for c in range(3):
        torch.testing.assert_close(
            out[:, c], (images[:, c].double() / 255 - MEAN[c]).div(STD[c]).float()
        )
    assert torch.equal(normalise(images[None])[0], out)


def test_every_augmented_image_is_a_crop_of_its_padded_form_or_the_mirror_of_one() -> None:
    images = torch.from_numpy(PIXELS.reshape(4, 3, 32, 32)).repeat(50, 1, 1, 1)
    padded = torch.nn.functional.pad(images, (4, 4, 4, 4))
    out = augment(images, generator(0, "augment"))
    assert out.dtype == torch.uint8
    seen = set()
    for i in range(len(images)):
        found = [
            (a, b, mirrored)
            for a in range(9)
            for b in range(9)
            for mirrored in (False, True)
            if torch.equal(
                padded[i, :, a : a + 32, b : b + 32].flip(-1)
                if mirrored
                else padded[i, :, a : a + 32, b : b + 32],
                out[i],
            )
        ]
        assert len(found) == 1
        seen.add(found[0])
    assert (
        len(seen) > 100
    )  # 200 draws of 162 equally likely pairs leave about 115 distinct, deviation 4


def test_augmentation_depends_on_the_generator_alone_and_leaves_its_input() -> None:
    images = torch.from_numpy(PIXELS.reshape(4, 3, 32, 32))
    before = images.clone()
    same = [augment(images, generator(1, "augment")) for _ in range(2)]
    assert torch.equal(*same)
    assert not torch.equal(same[0], augment(images, generator(2, "augment")))
    assert torch.equal(images, before)


def test_the_real_cifar10_test_part_has_500_images_of_each_class(
    shared: Callable[[str], Path],
) -> None:
    images, labels = cifar10(shared("cifar-10-batches-bin"), train=False)
    assert images.shape == (5000, 3, 32, 32)
    assert labels.bincount().tolist() == [500] * 10
    assert normalise(images).mean().abs() < 0.05


def test_the_real_cifar100_test_part_has_50_images_of_each_class(
    shared: Callable[[str], Path],
) -> None:
    _, labels = cifar100(shared("cifar-100-binary"), train=False)
    assert labels.bincount().tolist() == [50] * 100
