"""LIBSVM text becomes the dense matrix it describes, or an error that names the line."""

import bz2
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedstep.core.errors import InputError
from fedstep.data import libsvm


def save(directory: Path, text: str) -> Path:
    (directory / "toy.bz2").write_bytes(bz2.compress(text.encode()))
    return directory


def test_the_dense_matrix_and_ordered_labels_are_those_of_the_text(tmp_path: Path) -> None:
    save(tmp_path, "+1 1:0.5 3:-2 \n-1 2:1e-3 # a remark\n\n-1\n")
    inputs, targets = libsvm(tmp_path, "toy")
    torch.testing.assert_close(inputs, torch.tensor([[0.5, 0, -2], [0, 1e-3, 0], [0, 0, 0]]))
    assert targets.tolist() == [1, 0, 0]
    assert libsvm(tmp_path, "toy", dtype=torch.float64)[0].dtype == torch.float64


def test_n_features_widens_a_test_part_and_never_cuts(tmp_path: Path) -> None:
    save(tmp_path, "1 1:1 3:1\n2 2:1\n")
    inputs, _ = libsvm(tmp_path, "toy", n_features=5)
    assert inputs.shape == (2, 5)
    assert inputs.sum() == 3
    with pytest.raises(InputError, match="n_features=2"):
        libsvm(tmp_path, "toy", n_features=2)


def test_labels_keep_a_part_without_some_class_alike(tmp_path: Path) -> None:
    save(tmp_path, "3 1:1\n3 2:1\n")
    assert libsvm(tmp_path, "toy")[1].tolist() == [0, 0]
    assert libsvm(tmp_path, "toy", labels=(1, 2, 3))[1].tolist() == [2, 2]
    for labels in ((1, 2), (3, 1)):
        with pytest.raises(InputError, match="labels="):
            libsvm(tmp_path, "toy", labels=labels)


@pytest.mark.parametrize(
    "line",
    ["1 0:1", "1 2:1 2:3", "1 3:1 2:1", "1 a:1", "1 1:x", "1 1:nan", "1 1", "x 1:1", "1 1_0:1"],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    save(tmp_path, f"1 1:1\n{line}\n")
    with pytest.raises(InputError, match=r"toy\.bz2, line 2"):
        libsvm(tmp_path, "toy")


@pytest.mark.parametrize("label", ["0.5", "nan", "inf"])
def test_a_label_that_is_not_a_class_is_named(tmp_path: Path, label: str) -> None:
    save(tmp_path, f"1 1:1\n{label} 1:1\n")
    with pytest.raises(InputError, match=f"line 2: label {label}"):
        libsvm(tmp_path, "toy")


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "1\n2\n"])
def test_a_file_without_samples_or_features_is_refused(tmp_path: Path, text: str) -> None:
    save(tmp_path, text)
    with pytest.raises(InputError, match="has no"):
        libsvm(tmp_path, "toy")


def test_the_real_a9a_test_part_has_the_known_counts(shared: Callable[[str], Path]) -> None:
    inputs, targets = libsvm(shared("libsvm"), "a9a.t", n_features=123)
    assert inputs.shape == (16_281, 123)
    assert targets.bincount().tolist() == [12_435, 3_846]
    assert libsvm(shared("libsvm"), "german_scale")[1].bincount().tolist() == [700, 300]
