"""Tasks read from small files in upstream formats, split, cached and transformed."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedstep import zoo
from fedstep.core.errors import InputError
from fedstep.core.seeds import generator
from fedstep.data import cache, cifar, leaf, tasks
from fedstep.data.directory import Absent
from fedstep.data.leaf import encode
from fedstep.data.partition import Dirichlet, Iid, Natural, partitioner
from fedstep.data.parts import partition_hash
from fedstep.data.plan import Plan
from fedstep.data.sets import data_set, data_sets
from fedstep.data.sets.record import Samples
from fedstep.data.users import Users
from fedstep.execute import Cohort, Sequential, Store, Task
from fedstep.models.module import ModuleModel

TEXT = "Now is the winter of our discontent made glorious summer by this sun of York; " * 4


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSTEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDSTEP_DATA", raising=False)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def users(path, **data):
    counts = [len(d["y"]) for d in data.values()]
    put(path, json.dumps({"users": list(data), "num_samples": counts, "user_data": data}).encode())


def writer(*grey, label=None):
    return {
        "x": [[g / 255] * 784 for g in grey],
        "y": [g % 62 if label is None else label for g in grey],
    }


def role(start, n):
    at = range(start, start + n)
    return {"x": [TEXT[i : i + 80] for i in at], "y": [TEXT[i + 80] for i in at]}


def femnist(root):
    users(
        root / "femnist/train/all_data_0.json", ann=writer(1, 2, 3), bob=writer(4), cid=writer(5, 6)
    )
    users(
        root / "femnist/test/all_data_0.json",
        ann=writer(100, 2),
        bob=writer(101),
        cid=writer(5, 102),
    )


def records(labels, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), 3072), dtype=np.uint8)
    return np.concatenate([np.array(labels, np.uint8)[:, None], pixels], 1)


def cifar10(root, per_batch=20):
    folder = root / "cifar-10-batches-bin"
    for batch in (1, 2):
        put(
            folder / f"data_batch_{batch}.bin",
            records([i % 10 for i in range(per_batch)], batch).tobytes(),
        )
    put(folder / "test_batch.bin", records([3, 1], 9).tobytes())


def idx(array):
    lengths = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return bytes((0, 0, 8, array.ndim)) + lengths + array.astype(np.uint8).tobytes()


def mnist(root):
    for part, n in (("train", 6), ("t10k", 3)):
        images = np.random.default_rng(n).integers(0, 256, (n, 28, 28))
        put(root / f"mnist/{part}-images-idx3-ubyte", idx(images))
        put(root / f"mnist/{part}-labels-idx1-ubyte", idx(np.arange(n)))


def serve_hub(monkeypatch, name, get):
    """Let the hub give these samples: users, or a pair of inputs and targets."""

    def fetch(train):
        got = get(train)
        return Samples.of_users(got) if isinstance(got, Users) else Samples(*got)

    monkeypatch.setitem(data_sets(), name, replace(data_set(name), fetch=fetch))


def same(a, b):
    assert all(
        torch.equal(x, y) for x, y in zip(a.federation.fields, b.federation.fields, strict=True)
    )
    assert all(torch.equal(x, y) for x, y in zip(a.test, b.test, strict=True))
    assert (a.digest, a.note) == (b.digest, b.note)


def test_femnist_has_its_writers_as_clients(root):
    femnist(root)
    split = tasks.load("femnist", None, root)
    assert [p.tolist() for p in split.federation.parts] == [[0, 1, 2], [3], [4, 5]]
    assert split.federation.fields[1].tolist() == [1, 2, 3, 4, 5, 6]
    torch.testing.assert_close(split.federation.fields[0][3], torch.full((784,), 4 / 255))
    assert split.heldout is None
    assert split.federation.transform is None
    assert split.digest == partition_hash(split.federation.parts)


def test_test_samples_that_occur_in_training_are_dropped_and_counted(root):
    femnist(root)
    split = tasks.load("femnist", None, root)
    assert split.test[1].tolist() == [
        100 - 62,
        101 - 62,
        102 - 62,
    ]  # grey 2 of ann and 5 of cid were trained on
    assert split.note == "2 test samples that occur in the training data are left out"


def test_heldout_writers_are_apart(root):
    femnist(root)
    users(root / "femnist/heldout/all_data_0.json", dan=writer(7, 8))
    split = tasks.load("femnist", None, root)
    assert split.heldout[1].tolist() == [7, 8]
    assert len(split.federation) == 3


def test_limit_keeps_the_first_clients_and_the_hash_of_them_all(root):
    femnist(root)
    whole, two = tasks.load("femnist", None, root), tasks.load("femnist", None, root, limit=2)
    assert [p.tolist() for p in two.federation.parts] == [[0, 1, 2], [3]]
    assert two.digest == whole.digest


def test_a_rule_deals_by_label_even_where_there_are_natural_clients(root):
    users(
        root / "femnist/train/a.json", ann=writer(*range(6)), bob=writer(*range(62, 72))
    )  # labels 0-5 and 0-9
    users(root / "femnist/test/a.json", ann=writer(90))
    dealt = tasks.load("femnist", Dirichlet(0.5, 4), root, seed=3)
    labels = dealt.federation.fields[1].numpy()
    assert dealt.digest == partition_hash(Dirichlet(0.5, 4)(labels, 3))
    same(tasks.load("femnist", Natural(), root), tasks.load("femnist", None, root))


def test_shakespeare_has_its_roles_as_clients(root):
    users(root / "shakespeare/leaf/train/a.json", RICHARD=role(0, 3), CLARENCE=role(20, 2))
    users(root / "shakespeare/leaf/test/a.json", RICHARD=role(60, 2), CLARENCE=role(21, 1))
    split = tasks.load("shakespeare", None, root)
    assert [p.tolist() for p in split.federation.parts] == [[0, 1, 2], [3, 4]]
    assert torch.equal(split.federation.fields[0][3], encode(TEXT[20:100]))
    assert len(split.test[1]) == 2  # the window at 21 is a training sample
    assert split.note.startswith("1 test sample")


def test_cifar10_reads_the_batches_that_are_there_and_augments(root):
    cifar10(root)
    split = tasks.load("cifar10", Iid(4), root)
    images, labels = split.federation.fields
    assert images.shape == (40, 3, 32, 32)
    assert images.dtype == torch.uint8
    assert labels.tolist() == [i % 10 for i in range(20)] * 2
    assert images[20].flatten().tolist() == records([0] * 20, 2)[0, 1:].tolist()
    assert split.test[1].tolist() == [3, 1]
    assert split.federation.transform == cifar.Images()


def test_cifar10_takes_the_python_version_where_the_binary_one_is_not(root):
    folder = root / "cifar-10-batches-py"
    for name, seed in (("data_batch_1", 1), ("test_batch", 2)):
        table = records([1, 2], seed)
        put(folder / name, pickle.dumps({b"data": table[:, 1:], b"labels": [1, 2]}, protocol=2))
    (root / "cifar-10-batches-bin").mkdir()  # empty: of no account
    assert tasks.load("cifar10", Iid(2), root).federation.fields[1].tolist() == [1, 2]


def test_mnist_is_read_and_not_augmented(root):
    mnist(root)
    split = tasks.load("mnist", Iid(3), root)
    assert split.federation.fields[0].shape == (6, 784)
    assert split.federation.transform is None
    assert split.test[1].tolist() == [0, 1, 2]


def test_notes_of_partition_and_of_test_samples_are_both_told(root):
    mnist(root)
    images = np.random.default_rng(6).integers(0, 256, (6, 28, 28))[:3]
    put(root / "mnist/t10k-images-idx3-ubyte", idx(images))  # now all of them are training images
    images[0] = 0
    put(root / "mnist/t10k-images-idx3-ubyte", idx(images))
    note = tasks.load("mnist", partitioner("Dirichlet(alpha=1.0, clients=4)"), root).note
    assert note == (
        "2 of 6 samples are left out: 4 clients of 1 each; 2 test samples that occur in the training data are left out"
    )


def test_a_task_without_natural_clients_asks_for_a_rule(root):
    mnist(root)
    for partition in (None, Natural()):
        with pytest.raises(InputError, match="task mnist has no natural clients: give a partition"):
            tasks.load("mnist", partition, root)


def test_an_unknown_task_suggests_the_right_one():
    with pytest.raises(InputError, match="unknown task 'cifar-10': did you mean cifar10"):
        tasks.load("cifar-10", None)


@pytest.mark.parametrize("name", ["femnist", "shakespeare", "cifar10", "cifar100", "mnist"])
def test_what_is_missing_is_one_line_with_the_remedy(root, name, monkeypatch):
    with pytest.raises(Absent, match=r"^no data directory: give --data .*$"):
        tasks.load(name, Iid(2))
    with pytest.raises(Absent, match=r"^\S+ is not there or empty: put the files there .*$"):
        tasks.load(name, Iid(2), root)
    with pytest.raises(InputError, match=r"^\S+nowhere is not a directory: .*$") as caught:
        tasks.load(name, Iid(2), root / "nowhere")
    assert not isinstance(caught.value, Absent)  # mistyped, so nothing else is tried
    monkeypatch.setenv("FEDSTEP_DATA", str(root / "nowhere"))
    with pytest.raises(InputError, match="nowhere is not a directory"):
        tasks.load(name, Iid(2))


def test_the_directory_may_come_from_the_environment(root, monkeypatch):
    femnist(root)
    monkeypatch.setenv("FEDSTEP_DATA", str(root))
    assert len(tasks.load("femnist", None).federation) == 3


@pytest.mark.parametrize(
    ("name", "make"), [("femnist", femnist), ("cifar10", cifar10), ("mnist", mnist)]
)
def test_a_second_load_equals_the_first_and_reads_no_file(root, name, make, monkeypatch):
    make(root)
    partition = None if name == "femnist" else Iid(3)
    first = tasks.load(name, partition, root)

    def refuse(path):
        raise AssertionError(f"{path} was read again")

    for module in ("leaf.read_json", "cifar.read_bytes", "idx.read_bytes"):
        monkeypatch.setattr(f"fedstep.data.{module}", refuse)
    same(first, tasks.load(name, partition, root))


def test_changed_files_are_read_again(root):
    femnist(root)
    path = root / "femnist/train/all_data_0.json"
    before = path.stat()
    tasks.load("femnist", None, root)
    users(path, ann=writer(1, 2, 3), bob=writer(4), cid=writer(5, 7))  # as long as before
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert path.stat().st_size == before.st_size
    assert tasks.load("femnist", None, root).federation.fields[1].tolist() == [1, 2, 3, 4, 5, 7]


def test_a_torn_cache_is_made_anew(root, tmp_path):
    femnist(root)
    first = tasks.load("femnist", None, root)
    for path in (tmp_path / "cache").iterdir():
        torn = path.read_bytes()[:50]
        path.unlink()  # the old file is still mapped
        path.write_bytes(torn)
    with pytest.warns(UserWarning, match=r"\.safetensors is damaged .*: it is made anew"):
        same(first, tasks.load("femnist", None, root))
    same(first, tasks.load("femnist", None, root))  # mended: nothing is said any more


def test_two_data_sets_with_equal_names_sizes_and_times_are_not_mixed_up(tmp_path):
    labels = {}
    for name, last in (("one", 6), ("two", 7)):
        folder = tmp_path / name
        users(folder / "femnist/train/a.json", ann=writer(1, 2), bob=writer(last))
        users(folder / "femnist/test/a.json", ann=writer(100))
        for path in folder.rglob("*.json"):
            os.utime(path, ns=(10**18, 10**18))
        labels[name] = tasks.load("femnist", None, folder).federation.fields[1].tolist()
    sizes = {(tmp_path / name / "femnist/train/a.json").stat().st_size for name in labels}
    assert len(sizes) == 1
    assert labels == {"one": [1, 2, 6], "two": [1, 2, 7]}


def flip_last_byte(path):
    content = path.read_bytes()
    path.unlink()  # the old file is still mapped
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def test_a_flipped_byte_of_the_cache_is_noticed_named_and_mended(root, tmp_path):
    femnist(root)
    first = tasks.load("femnist", None, root)
    for path in (tmp_path / "cache").iterdir():
        flip_last_byte(path)
    with pytest.warns(
        UserWarning, match=r"femnist-(train|test)-\w+\.safetensors is damaged \(its checksum"
    ):
        same(first, tasks.load("femnist", None, root))


def test_a_damaged_copy_of_the_hub_is_refused_with_the_command_that_mends_it(monkeypatch, tmp_path):
    pair = torch.rand(6, 784), torch.arange(6)
    serve_hub(monkeypatch, "mnist", lambda train: pair)
    tasks.fetch("mnist")
    assert len(data_set("mnist").read(None).train[1]) == 6
    flip_last_byte(tmp_path / "cache/hub-mnist-test.safetensors")
    with pytest.raises(
        InputError,
        match=r"^\S+hub-mnist-test\.safetensors is damaged .*: fedstep data import mnist --hub$",
    ):
        data_set("mnist").read(None)


def test_a_cache_that_cannot_be_written_is_no_error(root, tmp_path, monkeypatch):
    femnist(root)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDSTEP_CACHE", str(tmp_path / "file/below"))
    assert len(tasks.load("femnist", None, root).federation) == 3


def test_a_failed_write_leaves_no_part_behind(tmp_path):
    (tmp_path / "cache/a.safetensors").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        cache.keep("a", {"x": torch.zeros(2)})
    assert cache.kept("a") is None
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["a.safetensors"]


def test_what_was_fetched_serves_where_there_are_no_files(root, monkeypatch):
    femnist(root)
    whole = tasks.load("femnist", None, root)
    read = {
        train: leaf.femnist(root / "femnist" / ("train" if train else "test"))
        for train in (True, False)
    }
    serve_hub(monkeypatch, "femnist", read.__getitem__)
    tasks.fetch("femnist")
    same(whole, tasks.load("femnist", None))  # no directory at all
    empty = root / "empty"
    empty.mkdir()
    same(whole, tasks.load("femnist", None, empty))
    with pytest.raises(InputError, match="is not a directory"):
        tasks.load("femnist", None, root / "nowhere")


def test_femnist_with_ink_1_comes_from_the_same_files_or_the_same_copy(root, monkeypatch):
    femnist(root)
    white, ink = tasks.load("femnist", None, root), tasks.load("femnist-ink", None, root)
    torch.testing.assert_close(ink.federation.fields[0], 1 - white.federation.fields[0])
    torch.testing.assert_close(ink.test[0], 1 - white.test[0])
    assert ink.note == white.note
    read = {
        train: leaf.femnist(root / "femnist" / ("train" if train else "test"))
        for train in (True, False)
    }
    serve_hub(monkeypatch, "femnist", read.__getitem__)
    tasks.fetch("femnist")
    same(ink, tasks.load("femnist-ink", None))


def test_files_go_before_what_was_fetched(root, monkeypatch):
    cifar10(root)
    other = torch.zeros(4, 3, 32, 32, dtype=torch.uint8), torch.arange(4)
    serve_hub(monkeypatch, "cifar10", lambda train: other)
    tasks.fetch("cifar10")
    assert len(data_set("cifar10").read(root).train[1]) == 40
    fetched = data_set("cifar10").read(None)
    assert len(fetched.train[1]) == 4
    assert fetched.transform == cifar.Images()
    put(root / "cifar-10-batches-bin/test_batch.bin", b"torn")
    with pytest.raises(InputError, match="test_batch"):  # broken files are told, not papered over
        data_set("cifar10").read(root)


def test_fetching_into_a_cache_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDSTEP_CACHE", str(tmp_path / "file"))
    serve_hub(monkeypatch, "mnist", lambda train: (torch.zeros(1, 784), torch.zeros(1).long()))
    with pytest.raises(InputError, match="set FEDSTEP_CACHE to another directory"):
        tasks.fetch("mnist")
    with pytest.raises(InputError, match="unknown task of the hub 'digits'"):
        tasks.fetch("digits")


IMAGES = torch.randint(
    256, (6, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
)
LABELS = torch.arange(6)


def test_augmentation_depends_on_the_generator_only():
    transform = cifar.Images()
    torch.manual_seed(1)
    first, labels = transform((IMAGES, LABELS), generator(5, "augment"))
    torch.manual_seed(2)
    again, _ = transform((IMAGES, LABELS), generator(5, "augment"))
    other, _ = transform((IMAGES, LABELS), generator(6, "augment"))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(labels, LABELS)


def test_evaluation_is_deterministic_and_only_normalises():
    plain, _ = cifar.Images()((IMAGES, LABELS), None)
    assert torch.equal(plain, cifar.normalise(IMAGES))
    assert torch.equal(plain, cifar.Images(augment=False)((IMAGES, LABELS), generator(5))[0])


def federated(root, batch, partition=Iid(5)):  # 8 samples each
    cifar10(root)
    split = tasks.load("cifar10", partition, root)
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, 6), nn.Tanh(), nn.Linear(6, 10)
    ).double()
    fed = replace(split.federation, transform=Doubles())
    return Task(zoo.fedavg(0.1), ModuleModel(net), fed, Plan(batch, 3), seed=4)


class Doubles(cifar.Images):
    """Floats as wide as the model, so that executors can be compared closely."""

    def __call__(self, fields, generator):
        images, *rest = super().__call__(fields, generator)
        return images.double(), *rest


def ends(task, executor):
    server = task.algorithm.init(task.model.init(), 2)
    for _ in range(2):
        updates = list(
            executor(task, task.algorithm.broadcast(server), range(len(task.federation)), Store())
        )
        total = updates[0].aggregate
        for update in updates[1:]:
            total = total + update.aggregate
        server = task.algorithm.absorb(server, total, len(task.federation))
    return server.x


@pytest.mark.parametrize("batch", [4, 8])
def test_clients_alone_and_in_a_block_see_the_same_augmented_samples(root, batch):
    task = federated(root, batch)
    alone, blocked = ends(task, Sequential()), ends(task, Cohort(3))
    torch.testing.assert_close(alone, blocked, rtol=1e-12, atol=1e-12)
    still = replace(task, federation=replace(task.federation, transform=Doubles(augment=False)))
    assert not torch.allclose(alone, ends(still, Sequential()), rtol=1e-6)


def test_padding_a_block_does_not_change_the_augmented_samples(root):
    task = federated(root, 6, partitioner("SizeLaw(clients=5)"))
    torch.testing.assert_close(
        ends(task, Sequential()), ends(task, Cohort(5)), rtol=1e-12, atol=1e-12
    )


def test_one_gather_and_a_gather_of_a_block_agree_bit_by_bit(root):
    task = federated(root, 4)
    like, index = torch.zeros(1), torch.stack([part[:4] for part in task.federation.parts])
    seeds = torch.tensor([task.step_seed(c, 0, 0) for c in range(5)])
    block = task.gather(index, torch.ones(5), seeds, None, like)
    for i in range(5):
        one = task.gather(index[i], torch.ones(()), seeds[i], None, like)
        assert all(torch.equal(a[i], b) for a, b in zip(block.fields, one.fields, strict=True))
