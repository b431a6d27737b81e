"""Plain and compressed files are one; missing and damaged ones are named."""

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from fedstep.core.errors import InputError
from fedstep.data.files import find, listing, present, read_bytes, read_json

CONTENT = bytes(range(256)) * 40
PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize("ending", PACK)
def test_a_file_reads_the_same_in_every_packing(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"batch.bin{ending}").write_bytes(PACK[ending](CONTENT))
    assert read_bytes(find(tmp_path, "batch.bin")) == CONTENT


def test_the_plain_file_wins_over_its_packed_form(tmp_path: Path) -> None:
    for ending, pack in PACK.items():
        (tmp_path / f"a{ending}").write_bytes(pack(CONTENT))
    assert find(tmp_path, "a") == tmp_path / "a"


def test_a_missing_file_is_named_with_its_place_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        find(tmp_path, "train.bin")
    assert "train.bin" in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)
    assert present(tmp_path, "train.bin") is None


@pytest.mark.parametrize("ending", [".gz", ".xz", ".bz2"])
@pytest.mark.parametrize("damage", ["cut", "garbled", "empty", "foreign"])
def test_a_damaged_stream_is_an_input_error_naming_the_file(
    tmp_path: Path, ending: str, damage: str
) -> None:
    packed = PACK[ending](CONTENT)
    middle = len(packed) // 2
    garbled = (
        packed[:middle]
        + bytes(b ^ 0xFF for b in packed[middle : middle + 8])
        + packed[middle + 8 :]
    )
    broken = {
        "cut": packed[:-9],
        "garbled": garbled,
        "empty": b"",
        "foreign": b"<html>not found</html>",
    }[damage]
    (tmp_path / f"x{ending}").write_bytes(broken)
    with pytest.raises(InputError, match=rf"x\{ending}"):
        read_bytes(find(tmp_path, "x"))


def test_a_listing_is_sorted_and_has_each_name_once(tmp_path: Path) -> None:
    for name in ("b.json.xz", "a.json.gz", "a.json", "c.json", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    assert [p.name for p in listing(tmp_path, ".json")] == ["a.json", "b.json.xz", "c.json"]


def test_a_listing_of_nothing_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \.json file"):
        listing(tmp_path, ".json")
    with pytest.raises(InputError, match="there is no directory"):
        listing(tmp_path / "train", ".json")


def test_broken_json_is_an_input_error_naming_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"users": [')
    with pytest.raises(InputError, match=r"a\.json is not JSON"):
        read_json(tmp_path / "a.json")
