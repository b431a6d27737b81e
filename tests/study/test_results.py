"""Results come back as they were written, whole or in part."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace

import homes
import pytest

from fedstep.analysis.results import load_results, pack
from fedstep.core.errors import InputError
from fedstep.run.packed import unpack


def test_load_gives_every_method_by_seed_with_its_choice(tmp_path):
    _, rows = homes.make(tmp_path, published={"FedSLS": {"accuracy": [82.75, 0.81]}})
    results = load_results(tmp_path)
    assert [g.label for g in results.groups] == ["FedAvg", "FedSLS", "FedExpSLS"]
    assert results.missing == ()
    for group in results.groups:
        assert group.seeds == (0, 1, 2, 3, 4)
        assert group.unfinished == ()
        for seed, run, spec in zip(group.seeds, group.runs, group.specs, strict=True):
            assert run.rows == rows[group.label, seed]
            assert spec["seed"] == seed
    assert results.groups[0].choice.spec == "fedavg(step=0.1)"
    assert results.groups[0].choice.rounds == 20
    assert results.groups[1].published == {"accuracy": [82.75, 0.81]}


def test_an_unfinished_run_is_used_to_its_last_whole_line_and_marked(tmp_path):
    homes.make(tmp_path)
    folder = homes.folder_of(tmp_path, "FedSLS", 3)
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    (folder / "rounds.jsonl").write_text("\n".join(lines[:7]) + "\n" + lines[7][:40])
    (folder / "done.json").unlink()
    group = load_results(tmp_path).groups[1]
    assert group.unfinished == (3,)
    assert [len(run.rows) for run in group.runs] == [20, 20, 20, 7, 20]


def test_what_has_not_begun_is_left_out(tmp_path):
    homes.make(tmp_path)
    for seed in range(5):
        shutil.rmtree(homes.folder_of(tmp_path, "FedExpSLS", seed))
    shutil.rmtree(homes.folder_of(tmp_path, "FedSLS", 0))
    results = load_results(tmp_path)
    assert results.missing == ("FedExpSLS",)
    assert results.groups[1].seeds == (1, 2, 3, 4)


def test_without_tuning_only_methods_without_a_grid_have_results(tmp_path):
    homes.make(tmp_path)
    (tmp_path / "tuning.json").unlink()
    assert [g.label for g in load_results(tmp_path).groups] == ["FedSLS", "FedExpSLS"]


def test_no_results_name_the_remedy(tmp_path):
    with pytest.raises(InputError, match="fedstep run STUDY"):
        load_results(tmp_path / "nowhere")
    homes.make(tmp_path)
    shutil.rmtree(tmp_path / "runs")
    with pytest.raises(InputError, match="fedstep run STUDY"):
        load_results(tmp_path)
    with pytest.raises(InputError, match="no finished run"):
        pack(tmp_path, tmp_path / "results.jsonl.gz")


def test_pack_and_load_keep_six_digits_of_every_round(tmp_path):
    _, rows = homes.make(tmp_path)
    (homes.folder_of(tmp_path, "FedAvg", 2) / "done.json").unlink()
    pack(tmp_path, tmp_path / "results.jsonl.gz")
    full = load_results(tmp_path)
    shutil.rmtree(tmp_path / "runs")
    back = load_results(tmp_path)
    assert back.groups[0].seeds == (0, 1, 3, 4)  # unfinished runs are not packed
    for group in back.groups:
        for seed, run in zip(group.seeds, group.runs, strict=True):
            was = rows[group.label, seed]
            assert len(run.rows) == len(was)
            for a, b in zip(run.rows, was, strict=True):
                assert list(a) == list(b)
                for key, value in b.items():
                    assert a[key] == (
                        None if value is None else pytest.approx(value, rel=6e-6, abs=0)
                    )
    assert back.groups[1].specs == full.groups[1].specs
    assert back.choices == full.choices


def test_packing_again_gives_the_same_bytes(tmp_path):
    homes.make(tmp_path)
    one = pack(tmp_path, tmp_path / "a.gz").read_bytes()
    assert pack(tmp_path, tmp_path / "b.gz").read_bytes() == one
    shutil.copy(tmp_path / "a.gz", tmp_path / "results.jsonl.gz")
    shutil.rmtree(tmp_path / "runs")
    assert pack(tmp_path, tmp_path / "c.gz").read_bytes() == one  # rounding twice is rounding once
    assert len(unpack(tmp_path / "c.gz")) == 15


def test_packed_rounds_of_a_large_study_stay_small(tmp_path):
    homes.make(tmp_path, rounds=500, seeds=(0,), every=5)
    size = pack(tmp_path, tmp_path / "results.jsonl.gz").stat().st_size
    assert size / 3 * 8 * 5 < 3e6  # three runs here; eight methods with five seeds there


@pytest.mark.parametrize(
    "data",
    [
        b"text",
        gzip.compress(b"{}\n", mtime=0),
        gzip.compress(b"[1", mtime=0),
        gzip.compress(b"{}", mtime=0)[:-9],
    ],
)
def test_a_damaged_pack_is_one_clear_error(tmp_path, data):
    path = tmp_path / "results.jsonl.gz"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"results.jsonl.gz: not packed results"):
        unpack(path)


def test_runs_on_disk_come_before_packed_ones(tmp_path):
    homes.make(tmp_path)
    pack(tmp_path, tmp_path / "results.jsonl.gz")
    folder = homes.folder_of(tmp_path, "FedSLS", 0)
    row = json.loads((folder / "rounds.jsonl").read_text().splitlines()[0])
    (folder / "rounds.jsonl").write_text(json.dumps({**row, "loss": 7.0}) + "\n")
    assert load_results(tmp_path).groups[1].runs[0].rows[0]["loss"] == 7.0


def test_results_are_read_compared_and_shown_without_torch(tmp_path):
    import subprocess
    import sys

    home = tmp_path / "home"
    homes.make(home)
    words = [
        ["compare", str(home)],
        ["report", str(home)],
        ["export", str(home), "--csv", str(tmp_path / "rows.csv")],
    ]
    calls = "\n".join(f"assert fedstep.cli.main({w!r}) == 0" for w in words)
    code = f"import sys, fedstep.cli\n{calls}\nassert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_method_cut_to_some_of_its_seeds_keeps_what_belongs_to_them(tmp_path):
    homes.make(tmp_path, rounds=20)
    group = replace(load_results(tmp_path).groups[0], unfinished=(1, 3))
    cut = group.of_places([0, 3])
    assert cut.seeds == (0, 3)
    assert cut.unfinished == (3,)
    assert cut.runs == (group.runs[0], group.runs[3])
    assert [spec["seed"] for spec in cut.specs] == [0, 3]
