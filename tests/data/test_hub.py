"""Hub data sets take the shapes of the file readers; the network is never used here."""

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fedstep.core.errors import InputError
from fedstep.data import hub
from fedstep.data.leaf import encode

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
GREY = RNG.integers(0, 256, (400, 28, 28), dtype=np.uint8)
TEXT = "The quality of mercy is not strain'd, It droppeth as the gentle rain from heaven " * 9


class Rows:
    """As much of datasets.Dataset as is used."""

    def __init__(self, **columns: Any) -> None:
        self.columns = columns
        self.column_names = list(columns)

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def select(self, index: Any) -> "Rows":
        return Rows(**{k: [v[int(i)] for i in index] for k, v in self.columns.items()})


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make `datasets.load_dataset` give these rows and check what is asked of it."""

    def put(name: str, split: str, rows: Rows | Exception) -> None:
        def load_dataset(asked: str, *, split: str) -> Rows:
            assert (asked, split) == (name, wanted)
            if isinstance(rows, Exception):
                raise rows
            return rows

        wanted = split
        module = ModuleType("datasets")
        module.load_dataset = load_dataset  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "datasets", module)

    return put


def test_colour_images_become_channels_first_bytes(serve: Callable[..., None]) -> None:
    serve("uoft-cs/cifar10", "test", Rows(img=list(COLOUR), label=[3, 1, 0, 9]))
    images, labels = hub.hub_columns("uoft-cs/cifar10", False, "img", "label")
    assert images.dtype == torch.uint8
    assert torch.equal(images, torch.from_numpy(COLOUR).permute(0, 3, 1, 2))
    assert labels.tolist() == [3, 1, 0, 9]


def test_the_columns_that_are_named_are_taken(serve: Callable[..., None]) -> None:
    rows = Rows(img=list(COLOUR), fine_label=[99, 0, 1, 2], coarse_label=[19, 0, 1, 2])
    serve("uoft-cs/cifar100", "train", rows)
    assert hub.hub_columns("uoft-cs/cifar100", True, "img", "fine_label")[1].tolist() == [
        99,
        0,
        1,
        2,
    ]
    assert hub.hub_columns("uoft-cs/cifar100", True, "img", "coarse_label")[1].tolist() == [
        19,
        0,
        1,
        2,
    ]


def test_grey_images_become_rows_of_fractions(serve: Callable[..., None]) -> None:
    serve("ylecun/mnist", "train", Rows(image=list(GREY[:5]), label=[0, 1, 2, 3, 4]))
    inputs, _ = hub.hub_columns("ylecun/mnist", True, "image", "label")
    torch.testing.assert_close(inputs, torch.from_numpy(GREY[:5].reshape(5, 784) / 255).float())


def femnist_rows() -> Rows:
    writers = ["f2"] * 20 + ["f1"] * 30 + ["f3"]  # f3 cannot have both a train and a test sample
    return Rows(
        image=list(GREY[:51]),
        writer_id=writers,
        hsf_id=[0] * 51,
        character=[i % 62 for i in range(51)],
    )


def test_femnist_is_split_by_writer_nine_to_one_and_nothing_is_in_both(
    serve: Callable[..., None],
) -> None:
    serve("flwrlabs/femnist", "train", femnist_rows())
    train, test = hub.hub_writers(), hub.hub_writers(train=False)
    assert train.names == test.names == ("f1", "f2")
    assert [[len(p) for p in split.parts] for split in (train, test)] == [[27, 18], [3, 2]]
    together = torch.cat([train.targets, test.targets]).tolist()
    assert sorted(together) == list(range(50))
    assert set(test.targets[test.parts[1]].tolist()) <= set(range(20))
    row = int(test.targets[0])
    torch.testing.assert_close(
        test.inputs[0], torch.from_numpy(GREY[row].reshape(784) / 255).float()
    )
    assert torch.equal(hub.hub_writers().targets, train.targets)


def test_shakespeare_is_split_in_time_without_overlap(serve: Callable[..., None]) -> None:
    n = 420  # k = int(0.8 * 420) = 336; test from 336 + 79 = 415: 5 windows. LEAR has 3 and no test part.
    ids = ["HAMLET"] * n + ["LEAR"] * 3
    at = [*range(n), *range(3)]
    rows = Rows(character_id=ids, x=[TEXT[i : i + 80] for i in at], y=[TEXT[i + 80] for i in at])
    serve("flwrlabs/shakespeare", "train", rows)
    train, test = hub.hub_roles(), hub.hub_roles(train=False)
    assert train.names == test.names == ("HAMLET",)
    assert (len(train.targets), len(test.targets)) == (336, 5)
    assert torch.equal(test.inputs[0], encode(TEXT[415:495]))
    assert torch.equal(test.targets, encode(TEXT[495:500]).long())


def test_a_missing_package_is_named_with_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"fedstep\[hub\]"):
        hub.hub_columns("uoft-cs/cifar10", True, "img", "label")


def test_no_network_is_one_clear_line(serve: Callable[..., None]) -> None:
    serve("ylecun/mnist", "train", ConnectionError("offline mode is enabled"))
    with pytest.raises(InputError, match="ylecun/mnist cannot be fetched from the hub"):
        hub.hub_columns("ylecun/mnist", True, "image", "label")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"image": GREY[:1], "label": [1]}, "no column 'img'"),
        ({"img": [], "label": []}, "has no rows"),
        ({"img": [GREY[0], GREY[1, :27]], "label": [0, 1]}, "differ in shape"),
        ({"img": GREY[:1], "label": ["a"]}, "whole numbers"),
        ({"img": GREY[:1], "label": [-1]}, "whole numbers"),
        ({"img": [TEXT[:79]], "label": ["a"]}, "length 80"),
        ({"img": [TEXT[:80]], "label": ["ab"]}, "length 1"),
    ],
)
def test_rows_that_are_not_samples_are_refused(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        hub.fields(Rows(**columns), "img", "label")


class Federated:
    """As much of flwr_datasets.FederatedDataset as is used; the number of partitions is known only after a load."""

    def __init__(self, *partitions: Any) -> None:
        self.partitions, self.partitioners = partitions, {"train": SimpleNamespace()}

    def load_partition(self, i: int, split: str) -> Any:
        self.partitioners[split].num_partitions = len(self.partitions)
        return self.partitions[i]


def test_partitions_of_flwr_datasets_become_clients_in_order() -> None:
    fds = Federated(
        Rows(img=list(COLOUR[:3]), label=[1, 2, 3]), Rows(img=list(COLOUR[3:]), label=[4])
    )
    users = hub.from_flwr_datasets(fds, "train")
    assert users.names == ("0", "1")
    assert users.targets.tolist() == [1, 2, 3, 4]
    assert [p.tolist() for p in users.parts] == [[0, 1, 2], [3]]
    assert users.inputs.shape == (4, 3, 32, 32)
    assert users.federation.size(0) == 3


def test_columns_of_other_names_must_be_given() -> None:
    fds = Federated(Rows(features=[[1.0, 2.0], [3.0, 4.0]], income=[0, 1]))
    with pytest.raises(InputError, match=r"features, income: give columns"):
        hub.from_flwr_datasets(fds)
    users = hub.from_flwr_datasets(fds, columns=("features", "income"))
    assert users.inputs.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_real_dataset_of_images_reads_like_the_arrays_it_was_made_of() -> None:
    datasets = pytest.importorskip("datasets", reason="the package `datasets` is not installed")
    features = datasets.Features({"img": datasets.Image(), "label": datasets.Value("int64")})
    rows = datasets.Dataset.from_dict(
        {"img": list(COLOUR), "label": [3, 1, 0, 9]}, features=features
    )
    images, labels = hub.fields(rows, "img", "label")
    assert torch.equal(images, torch.from_numpy(COLOUR).permute(0, 3, 1, 2))
    assert labels.tolist() == [3, 1, 0, 9]


def test_real_partitioners_of_flwr_datasets_are_understood(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets", reason="the package `datasets` is not installed")
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")
    flwr_datasets = pytest.importorskip(
        "flwr_datasets", reason="the package `flwr_datasets` is not installed"
    )
    natural = pytest.importorskip("flwr_datasets.partitioner").NaturalIdPartitioner(
        partition_by="writer_id"
    )
    rows = {
        "x": [[float(i), 0.5] for i in range(6)],
        "y": [0, 1, 2, 3, 4, 5],
        "writer_id": ["b", "a", "b", "c", "a", "b"],
    }
    datasets.Dataset.from_dict(rows).to_parquet(tmp_path / "rows.parquet")
    fds = flwr_datasets.FederatedDataset(
        dataset="parquet",
        data_files={"train": str(tmp_path / "rows.parquet")},
        cache_dir=str(tmp_path / "cache"),
        partitioners={"train": natural},
        shuffle=False,
    )
    users = hub.from_flwr_datasets(fds, "train")
    assert sorted(len(p) for p in users.parts) == [1, 2, 3]
    assert torch.equal(users.inputs[:, 0].long(), users.targets)
