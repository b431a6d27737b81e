"""`fedstep data` and `fedstep partition` as a user meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

import fedstep.cli
from fedstep.cli import data, partition
from fedstep.core.errors import InputError
from fedstep.data import tasks
from fedstep.data.directory import Absent
from fedstep.data.partition import Iid, LogNormal, Natural, Power, Shards, SizeLaw, partitioner
from fedstep.data.sets import data_set, data_sets
from fedstep.data.sets.record import Samples


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSTEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDSTEP_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(fedstep.cli, "COMMANDS", (data, partition))


@pytest.fixture
def say(capsys):
    """Run a command; its exit code, what it printed and what it complained of."""

    def run(*words):
        code = fedstep.cli.main([str(w) for w in words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def root(tmp_path):
    """Six writers, and MNIST without its labels."""
    for split, n in (("train", 12), ("test", 2)):
        own = {
            f"w{i}": {
                "x": [[(i * n + k) / 255] * 784 for k in range(n)],
                "y": [(i + k) % 5 for k in range(n)],
            }
            for i in range(6)
        }
        own = (
            own
            if split == "train"
            else {w: {"x": [[1.0] * 784] * n, "y": d["y"]} for w, d in own.items()}
        )
        folder = tmp_path / "data/femnist" / split
        folder.mkdir(parents=True)
        content = {"users": list(own), "num_samples": [n] * 6, "user_data": own}
        (folder / "all_data_0.json").write_text(json.dumps(content))
    (tmp_path / "data/mnist").mkdir()
    images = np.zeros((3, 28, 28), np.uint8)
    (tmp_path / "data/mnist/train-images-idx3-ubyte").write_bytes(
        bytes((0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 28, 0, 0, 0, 28)) + images.tobytes()
    )
    return tmp_path / "data"


def test_list_imports_nothing_heavy(root):
    code = (
        "import sys, fedstep.cli\n"
        "from fedstep.cli import data\n"
        "fedstep.cli.COMMANDS = (data,)\n"
        f"fedstep.cli.main(['data', 'list', '--data', {str(root)!r}])\n"
        "assert not {'torch', 'numpy', 'sklearn'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_list_tells_every_task_and_what_is_found(say, root):
    code, out, _ = say("data", "list", "--data", root)
    assert code == 0
    rows = {
        words[0]: words[1]
        for line in out.splitlines()
        if (words := line.split()) and words[0] in data_sets()
    }
    wanted = {"femnist": "yes", "mnist": "in", "digits": "yes"} | dict.fromkeys(
        ("shakespeare", "cifar10", "cifar100"), "no"
    )
    assert wanted.items() <= rows.items()
    assert rows.keys() == data_sets().keys()
    for word in ("cifar-10-batches-py/", "femnist/train/*.json", "hub: uoft-cs/cifar10", str(root)):
        assert word in out


def test_list_without_a_directory_or_with_a_wrong_one_still_lists(say, tmp_path):
    assert (
        "Data directory: none: give --data DIRECTORY or set FEDSTEP_DATA" in say("data", "list")[1]
    )
    code, out, _ = say("data", "list", "--data", tmp_path / "nowhere")
    assert code == 0
    assert "(there is no such directory)" in out


def test_whoever_names_a_place_on_the_hub_can_fetch_it():
    fetched = {name for name, record in data_sets().items() if getattr(record, "fetch", None)}
    assert fetched == {name for name, record in data_sets().items() if record.hub}
    assert len(fetched) == 5


@pytest.mark.parametrize("name", [n for n, s in data_sets().items() if s.folders])
def test_folders_of_the_list_are_those_the_tasks_look_in(tmp_path, name):
    for i, folder in enumerate(data_sets()[name].folders):
        root = tmp_path / str(i)
        (root / folder).mkdir(parents=True)
        with pytest.raises(Absent):
            data_set(name).read(root)
        (root / folder / "unrelated.txt").write_text("")
        with pytest.raises(InputError) as caught:
            data_set(name).read(root)
        assert not isinstance(caught.value, Absent)  # it looked here
        assert str(root / folder) in str(caught.value)


@pytest.mark.parametrize(("ending", "other"), [*product(("", ".xz"), (False, True))])
def test_files_are_found_under_every_accepted_name(tmp_path, ending, other):
    source = data_sets()["cifar10"]
    folder = tmp_path / source.folders[other]
    folder.mkdir()
    assert source.missing(tmp_path) == ["data_batch_1.bin", "test_batch.bin"]
    (folder / (source.needs[0][other] + ending)).write_text("")
    assert source.missing(tmp_path) == ["test_batch.bin"]
    (folder / (source.needs[1][other] + ending)).write_text("")
    assert source.missing(tmp_path) == []


def test_check_reads_what_is_there_and_tells_broken_from_absent(say, root):
    code, out, _ = say("data", "check", "--data", root)
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 2  # mnist has files but not all
    assert "ok      72 train + 12 test samples, 5 labels, 6 clients, 0." in lines["femnist"]
    assert "broken  train-labels-idx1-ubyte is not in" in lines["mnist"]
    assert "absent" in lines["cifar10"]
    assert "ok" in lines["synthetic"]
    assert list(lines) == list(data_sets())


def test_absent_tasks_are_an_error_only_when_named(say, root):
    (root / "mnist/train-images-idx3-ubyte").unlink()
    code, out, _ = say("data", "check", "--data", root)
    assert code == 0
    assert "mnist        absent" in out
    assert say("data", "check")[0] == 0
    assert say("data", "check", "femnist", "--data", root)[0] == 0
    assert say("data", "check", "femnist", "mnist", "--data", root)[0] == 2


def test_digits_without_scikit_learn_are_absent_not_broken(say, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    code, out, _ = say("data", "check")
    assert code == 0
    assert "digits       absent" in out
    assert say("data", "check", "digits")[0] == 2


def test_a_task_without_test_samples_or_labels_can_be_checked(say):
    code, out, _ = say("data", "check", "plane")
    assert code == 0
    assert out.startswith("plane        ok      2 train samples, no labels, 2 clients")


def test_import_from_files_fills_the_cache(say, root, tmp_path):
    code, out, _ = say("data", "import", "femnist", "--data", root)
    assert code == 0
    assert out.startswith("femnist: 72 train + 12 test samples, 5 labels, 6 clients, ")
    assert out.strip().endswith(f"kept in {tmp_path / 'cache'}")
    assert len(list((tmp_path / "cache").glob("femnist-*.safetensors"))) == 2
    assert (
        say("data", "import", "femnist-ink", "--hub")[2].strip().endswith("did you mean femnist?")
    )


def test_import_from_the_hub_serves_partition_without_files(say, root, tmp_path, monkeypatch):
    pair = torch.rand(40, 784), torch.arange(40) % 4
    few = torch.rand(4, 784), torch.arange(4)
    fetching = replace(
        data_set("mnist"),
        fetch=lambda train: Samples(*pair) if train else Samples(*few),
    )
    monkeypatch.setitem(data_sets(), "mnist", fetching)
    code, out, _ = say("data", "import", "mnist", "--hub")
    assert code == 0
    assert out.startswith("mnist: 40 train + 4 test samples, 4 labels, no natural clients")
    listed = say("data", "list")[1]
    assert "mnist        hub copy" in listed
    assert say("data", "check", "mnist")[0] == 0
    code, out, _ = say("partition", "mnist", "--rule", "Iid(clients=4)", "--out", tmp_path / "out")
    assert code == 0
    assert "min 10, quartiles 10 / 10 / 10, max 10" in out
    assert "will be used before it" in say("data", "import", "mnist", "--hub", "--data", root)[1]


def test_partition_tells_sizes_labels_hash_and_note(say, root, tmp_path):
    code, out, _ = say("partition", "femnist", "--data", root, "--out", tmp_path / "out")
    assert code == 0
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    facts = {line[:18].strip(): line[18:] for line in out.splitlines()}
    assert facts["clients"] == "6"
    assert facts["samples a client"] == "min 12, quartiles 12 / 12 / 12, max 12"
    assert facts["labels a client"] == "min 5, quartiles 5 / 5 / 5, max 5"
    assert facts["hash"] == tasks.load("femnist", None, root).digest
    assert facts["note"] == "none"
    assert ["page:", str((tmp_path / "out/femnist.html").resolve())] in lines


def test_partition_writes_a_page_that_stands_alone(say, root, tmp_path):
    words = (
        "partition",
        "femnist",
        "--rule",
        "Dirichlet(alpha=0.3, clients=7)",
        "--seed",
        "3",
        "--data",
        root,
    )
    code, out, _ = say(*words, "--out", tmp_path / "a")
    assert code == 0
    assert "2 of 72 samples are left out: 7 clients of 10 each" in out
    page = (tmp_path / "a/femnist.html").read_text()
    assert "femnist: Dirichlet(alpha=0.3, clients=7), seed 3" in page
    assert "every client has 10 samples" in page
    assert (
        "fedstep partition femnist --seed 3 --rule &#39;Dirichlet(alpha=0.3, clients=7)&#39;"
        in page
    )
    assert "http" not in page
    assert str(tmp_path) not in page
    say(*words, "--out", tmp_path / "b")
    assert (tmp_path / "b/femnist.html").read_text() == page


def test_partition_draws_a_picture_only_with_matplotlib(say, root, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    say("partition", "femnist", "--data", root, "--out", tmp_path / "with")
    assert (tmp_path / "with/femnist.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, _ = say("partition", "femnist", "--data", root, "--out", tmp_path / "without")
    assert code == 0
    assert "\npicture: " not in out
    assert [p.name for p in (tmp_path / "without").iterdir()] == ["femnist.html"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data", "check", "cifr10"], "unknown task 'cifr10': did you mean cifar10?"),
        (
            ["data", "check", "--data", "nowhere"],
            "nowhere is not a directory: give --data DIRECTORY or set FEDSTEP_DATA",
        ),
        (["data", "import", "mnst"], "unknown task 'mnst': did you mean mnist?"),
        (["data", "import", "digits"], "task digits needs no files: there is nothing to import"),
        (
            ["data", "import", "mnist"],
            "no data directory: give --data DIRECTORY or set FEDSTEP_DATA (fedstep data list names the files)",
        ),
        (
            ["partition", "plane"],
            "task plane has numbers for targets: there are no labels to map, choose another task",
        ),
        (["partition", "synthtic"], "unknown task 'synthtic': did you mean synthetic?"),
        (
            ["partition", "synthetic"],
            "task synthetic has no natural clients: give a partition such as Dirichlet(alpha=0.3, clients=100)",
        ),
        (
            ["partition", "synthetic", "--rule", "Dirichlt(alpha=1)"],
            "unknown partition 'Dirichlt': did you mean Dirichlet?",
        ),
        (
            ["partition", "synthetic", "--rule", "Iid(clients=9999)"],
            "Iid(clients=9999): 1600 samples do not suffice for 9999 parts: lower clients",
        ),
    ],
)
def test_bad_input_is_one_line_and_a_code(say, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert say(*words) == (2, "", f"fedstep: {message}\n")


def test_an_out_that_cannot_be_written_is_one_line(say, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = say(
        "partition", "synthetic", "--rule", "Iid(clients=2)", "--out", tmp_path / "file/below"
    )
    assert code == 2
    assert str(tmp_path / "file/below") in err
    assert len(err.splitlines()) == 1


def test_labels_are_named_where_the_name_is_short():
    assert [data_set("femnist").label_name(k) for k in (0, 10, 36, 61)] == ["0", "A", "a", "z"]
    assert [data_set("shakespeare").label_name(k) for k in (0, 1, 79, 80)] == [
        "newline",
        "space",
        "}",
        "other",
    ]
    assert data_set("cifar10").label_name(9) == "truck"
    assert data_set("cifar100").label_name(99) == "99"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("Natural", Natural()),
        ("Natural()", Natural()),
        (" Iid(clients=3) ", Iid(3)),
        ("Shards(clients=3, per_client=4)", Shards(3, 4)),
        ("SizeLaw(clients=3, law=Power(exponent=2))", SizeLaw(3, Power(2))),
        ("SizeLaw(clients=3, law=LogNormal())", SizeLaw(3, LogNormal())),
    ],
)
def test_a_rule_is_what_its_text_says(text, made):
    assert partitioner(text) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a partition: write a name or a call such as Dirichlet"),
        ("Iid(", "is not a partition"),
        ("Iid(3)", "name every argument, as in Dirichlet"),
        ("Iid(client=3)", "unknown argument of Iid 'client': did you mean clients"),
        ("Iid()", r"Iid\(\): clients is missing; give a whole number"),
        ("Iid(clients=0)", "must be a whole number, 1 or more"),
        ("Iid(clients=open)", "open is not a number or a part such as LogNormal"),
        ("Iid(clients={[]: 1})", "is not a number"),
        ("Iid(clients=__import__('os'))", "name every argument"),
        ("Iid(clients=exec(text='1'))", "unknown part 'exec'"),
        ("Dirichlet(alpha='a', clients=2)", r"Dirichlet\(alpha='a'\): give a number"),
        ("Dirichlet(alpha=inf, clients=2)", "alpha must be positive and finite"),
        ("SizeLaw(clients=3, law=2)", r"SizeLaw\(law=2\): give a part such as LogNormal\(\)"),
        ("SizeLaw(clients=3, law=Iid(clients=2))", "unknown part 'Iid'"),
        ("Natural.__call__", "unknown partition"),
        ("(" * 500 + ")" * 500, "is not a partition"),
        ("Iid(clients=1)\0", "is not a partition"),
        ("Iid(clients=" + "-" * 20000 + "1)", "Iid"),
    ],
)
def test_a_text_that_is_no_rule_is_refused_in_one_line(text, message):
    with pytest.raises(InputError, match=message) as caught:
        partitioner(text)
    assert "\n" not in str(caught.value)
