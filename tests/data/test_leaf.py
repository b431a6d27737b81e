"""LEAF's files become the samples they spell out, or an error that names file and user; never a wrong array."""

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fedstep.core.errors import InputError
from fedstep.data.alphabet import ALPHABET, UNKNOWN, VOCABULARY
from fedstep.data.leaf import (
    encode,
    femnist,
    shakespeare,
    shakespeare_roles,
)

TEXT = "To be, or not to be, that is the question: Whether 'tis nobler in the mind to suffer " * 6


def shard(**users: dict[str, list[Any]]) -> dict[str, Any]:
    return {
        "users": list(users),
        "num_samples": [len(u["y"]) for u in users.values()],
        "user_data": users,
    }


def writer(*labels: int) -> dict[str, list[Any]]:
    return {"x": [[(i + j) % 256 / 255 for j in range(784)] for i in labels], "y": list(labels)}


def role(n: int, start: int = 0) -> dict[str, list[Any]]:
    return {
        "x": [TEXT[i : i + 80] for i in range(start, start + n)],
        "y": [TEXT[i + 80] for i in range(start, start + n)],
    }


def save(directory: Path, name: str, content: object) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(json.dumps(content))
    return directory


def test_femnist_users_come_in_order_of_files_then_of_users(tmp_path: Path) -> None:
    save(tmp_path, "all_data_1.json", shard(d=writer(7)))
    packed = lzma.compress(json.dumps(shard(z=writer(3, 61), a=writer(0))).encode())
    (tmp_path / "all_data_0.json.xz").write_bytes(packed)
    users = femnist(tmp_path)
    assert users.names == ("z", "a", "d")
    assert users.targets.tolist() == [3, 61, 0, 7]
    assert [p.tolist() for p in users.parts] == [[0, 1], [2], [3]]
    assert users.inputs.dtype == torch.float32
    torch.testing.assert_close(
        users.inputs[1], torch.arange(61, 61 + 784).remainder(256).float() / 255
    )
    assert users.federation.size(0) == 2


def test_femnist_keeps_the_white_background_unless_inverted(tmp_path: Path) -> None:
    save(tmp_path, "a.json", shard(w={"x": [[1.0] * 783 + [0.25]], "y": [5]}))
    assert femnist(tmp_path).inputs[0, [0, 783]].tolist() == [1.0, 0.25]
    assert femnist(tmp_path, invert=True).inputs[0, [0, 783]].tolist() == [0.0, 0.75]


def changed(key: str, value: object) -> dict[str, Any]:
    content = shard(ann=writer(1, 2), bob=writer(3))
    content["user_data"]["bob"][key] = value
    return content


BAD_FEMNIST = {
    "num_samples": {**shard(bob=writer(1, 2)), "num_samples": [3]},
    "num_samples as if windows were dropped": {**shard(bob=writer(1, 2)), "num_samples": [2 + 79]},
    "fewer x than y": shard(bob={**writer(1, 2), "x": writer(1)["x"]}),
    "label too large": changed("y", [62]),
    "label negative": changed("y", [-1]),
    "label not whole": changed("y", [3.0]),
    "label a truth value": changed("y", [True]),
    "pixels too few": changed("x", [[0.5] * 783]),
    "pixels ragged": changed("x", [[0.5] * 783 + [[0.5]]]),
    "pixel too large": changed("x", [[255] * 784]),
    "pixel negative": changed("x", [[-0.1] * 784]),
    "pixel not a number": changed("x", [[float("nan")] * 784]),
    "pixel a string": changed("x", [["0.5"] * 784]),
    "pixel null": changed("x", [[None] * 784]),
    "empty user": shard(ann=writer(1), bob={"x": [], "y": []}),
    "no y": {**shard(bob=writer(1)), "user_data": {"bob": {"x": [[0.0] * 784]}}},
}


@pytest.mark.parametrize("case", BAD_FEMNIST)
def test_a_femnist_user_that_contradicts_the_format_is_named(tmp_path: Path, case: str) -> None:
    save(tmp_path, "shard_0.json", BAD_FEMNIST[case])
    with pytest.raises(InputError, match=r"shard_0\.json, user 'bob'"):
        femnist(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"users": ["a"]},
        {"users": [], "num_samples": [], "user_data": {}},
        {**shard(a=writer(1)), "users": ["b"]},
        {**shard(a=writer(1), b=writer(2)), "users": ["a", "a"]},
        {**shard(a=writer(1)), "users": ["a", "a"], "num_samples": [1, 1]},
        {**shard(a=writer(1), b=writer(2)), "users": ["a"], "num_samples": [1]},
        {**shard(a=writer(1)), "users": [["a"]]},
    ],
)
def test_a_shard_that_does_not_name_its_users_once_each_is_refused(
    tmp_path: Path, content: object
) -> None:
    save(tmp_path, "shard_0.json", content)
    with pytest.raises(InputError, match=r"shard_0\.json"):
        femnist(tmp_path)


def test_the_number_of_pixels_found_is_told(tmp_path: Path) -> None:
    save(tmp_path, "shard_0.json", BAD_FEMNIST["pixels too few"])
    with pytest.raises(InputError, match="an image has 783 pixels, not 784"):
        femnist(tmp_path)


def test_a_user_in_two_shards_is_refused(tmp_path: Path) -> None:
    save(tmp_path, "0.json", shard(ann=writer(1)))
    save(tmp_path, "1.json", shard(ann=writer(1)))
    with pytest.raises(InputError, match=r"1\.json: user 'ann'"):
        femnist(tmp_path)


def test_the_vocabulary_is_leafs_eighty_characters_and_one_unknown() -> None:
    # 11 marks from \n to '.', 10 digits, : ; > ?, 26 capitals, [ ], 26 small letters, }: 11 + 10 + 4 + 26 + 2 + 26 + 1
    assert len(set(ALPHABET)) == len(ALPHABET) == 80 == UNKNOWN
    assert VOCABULARY == 81
    assert encode(ALPHABET).tolist() == list(range(80))
    assert encode("$|\t\x7fé€🎭\ud800").tolist() == [UNKNOWN] * 8


def test_shakespeare_windows_are_the_spelt_out_strings(tmp_path: Path) -> None:
    save(tmp_path, "a.json", shard(HAMLET=role(5), LEAR=role(3, start=9)))
    users = shakespeare(tmp_path)
    assert users.inputs.shape == (8, 80)
    assert users.inputs.dtype == torch.uint8
    assert users.targets.dtype == torch.int64
    for row, i in enumerate([0, 1, 2, 3, 4, 9, 10, 11]):
        assert "".join(ALPHABET[c] for c in users.inputs[row]) == TEXT[i : i + 80]
        assert ALPHABET[users.targets[row]] == TEXT[i + 80]


@pytest.mark.parametrize(
    ("key", "value"), [("x", [TEXT[:79]]), ("x", [None]), ("y", ["ab"]), ("y", [""]), ("y", [4])]
)
def test_a_shakespeare_sample_of_wrong_length_is_named(
    tmp_path: Path, key: str, value: list[Any]
) -> None:
    save(tmp_path, "a.json", shard(LEAR={**role(1), key: value}))
    with pytest.raises(InputError, match=r"a\.json, user 'LEAR'"):
        shakespeare(tmp_path)


def test_the_79_windows_that_leaf_counts_but_drops_are_accepted_and_no_others(
    tmp_path: Path,
) -> None:
    save(tmp_path, "a.json", {**shard(LEAR=role(2)), "num_samples": [81]})
    assert len(shakespeare(tmp_path).targets) == 2
    save(tmp_path, "a.json", {**shard(LEAR=role(2)), "num_samples": [80]})
    with pytest.raises(InputError, match="num_samples 80"):
        shakespeare(tmp_path)


def test_roles_are_cut_by_the_temporal_rule_without_overlap(tmp_path: Path) -> None:
    # 500 characters: n = 420, k = 336; test begins at 336 + 79 = 415, so 5 samples. 100 characters: k = 16, n = 20 < 95.
    texts = {"HAMLET": TEXT[:500], "PAGE": TEXT[:100], "FOOL": "Nay."}
    save(tmp_path, "roles.json", texts)
    train, test = shakespeare_roles(tmp_path), shakespeare_roles(tmp_path, train=False)
    assert train.names == test.names == ("HAMLET",)
    assert (len(train.targets), len(test.targets)) == (336, 5)
    assert torch.equal(train.inputs[335], encode(TEXT[335 : 335 + 80]))
    assert ALPHABET[train.targets[335]] == TEXT[415]
    assert torch.equal(
        test.inputs[0], encode(TEXT[415 : 415 + 80])
    )  # the last train input ends at 414
    assert ALPHABET[test.targets[-1]] == TEXT[499]


@pytest.mark.parametrize("content", [["text"], {"HAMLET": 3}, {"FOOL": "Nay."}])
def test_roles_that_give_no_sample_are_refused(tmp_path: Path, content: object) -> None:
    save(tmp_path, "roles.json", content)
    with pytest.raises(InputError, match=r"roles\.json"):
        shakespeare_roles(tmp_path)


def test_only_brings_two_splits_in_line(tmp_path: Path) -> None:
    users = femnist(save(tmp_path, "a.json", shard(a=writer(1, 2), b=writer(3), c=writer(4, 5))))
    some = users.only(["c", "a"])
    assert some.targets.tolist() == [4, 5, 1, 2]
    assert torch.equal(some.inputs[some.parts[0]], users.inputs[users.parts[2]])
    with pytest.raises(InputError, match="'d'"):
        users.only(["a", "d"])


def test_the_real_femnist_test_shards_hold_300_writers(shared: Callable[[str], Path]) -> None:
    users = femnist(shared("femnist/test"))
    assert (len(users.names), len(users.targets)) == (300, 4763)
    assert users.inputs.mean() > 0.5  # mostly white


def test_the_real_roles_cut_here_equal_the_windows_spelt_out(shared: Callable[[str], Path]) -> None:
    spelt = shakespeare(shared("shakespeare/leaf/train"))
    roles = shakespeare_roles(shared("shakespeare"))
    assert (len(spelt.names), len(spelt.targets)) == (100, 416_865)
    assert (len(roles.names), len(roles.targets)) == (819, 3_317_355)
    cut = roles.only(spelt.names)
    assert torch.equal(cut.inputs, spelt.inputs)
    assert torch.equal(cut.targets, spelt.targets)
