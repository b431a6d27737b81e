"""The benchmark driver divides rightly, and the protocol makes everyone do the same work."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def run(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import run

    return run


def entry(run, name, walls, cpus, **first):
    replies = [
        w and {"wall": w, "cpu": c, "memory": 2**20, "rounds": 1}
        for w, c in zip(walls, cpus, strict=True)
    ]
    opening = {"wall": 9.0, "cpu": 9.0, "memory": 2**21, "batches": 10, "loss": 1.0, **first}
    return run.Entry(
        name, "file", "torch", {}, ready=1.0, first_done=10.0, first=opening, replies=replies
    )


def test_ratios_are_formed_within_a_repetition(run):
    base = entry(
        run, run.BASE, [1.0, 10.0, 2.0], [1.0, 1.0, 1.0]
    )  # the machine was slow in the second repetition
    half = entry(run, "half", [0.5, 5.0, 1.0], [2.0, 2.0, 2.0])
    row = run.row(half, base)
    assert row["wall ratio"] == row["wall ratio from"] == row["wall ratio to"] == 0.5
    assert row["cpu ratio"] == 2.0
    assert row["memory"] == 2**21  # the first round's


def test_a_repetition_that_was_left_out_does_not_count(run):
    base = entry(run, run.BASE, [1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    slow = entry(run, "slow", [3.0, 5.0, None], [3.0, 3.0, None])
    assert run.row(slow, base)["wall ratio"] == 4.0


def test_table_names_everyone_and_who_did_other_work(run):
    base = entry(run, run.BASE, [1.0], [1.0])
    lazy = entry(run, "lazy", [0.25], [0.5], batches=5, trials=2.0)
    rows = [run.row(e, base) for e in (base, lazy)]
    assert run.unequal(rows) == ["lazy: 5 batches, not 10"]
    text = run.table(rows, {"absent": "could not be installed"})
    assert "| lazy | 0.250 (0.250 to 0.250) | 0.500 |" in text
    assert text.endswith("- absent: could not be installed")


def test_competitors_are_read_without_their_packages(run):
    found, skipped = run.entries("w2", only=[])
    names = [e.name for e in found]
    assert names[0] == run.BASE
    assert {"Flower, 2 actors", "pfl p2", "fedstep FedSLS"} <= set(names)
    assert "JAX scan, 1 core" in skipped


def test_bare_loop_and_fedstep_do_the_same_batches(run, tmp_path):
    done, failed = smoke(run, tmp_path, ["fedstep FedAvg"])
    names = {e.name for e in done}
    assert {run.BASE, "fedstep FedAvg"} <= names
    assert names | set(failed) == {
        run.BASE,
        "fedstep FedAvg",
        "fedstep FedAvg p2",
    }  # who fails is named, the rest goes on
    rows = {e.name: run.row(e, done[0]) for e in done}
    assert not run.unequal(list(rows.values()))
    assert (
        rows[run.BASE]["batches"] == 3 * 2 * 3
    )  # clients, epochs, batches a pass (27 samples in tens)
    assert rows["fedstep FedAvg"]["loss"] == pytest.approx(rows[run.BASE]["loss"], rel=0.02)
    assert json.loads((tmp_path / "w1.json").read_text())["machine"]["cores"] >= 1


def smoke(run, out, only):
    """The real driver on the real protocol, in this interpreter."""
    seen = {}
    compete = run.compete

    def spy(workload, options):
        seen["answer"] = compete(workload, options)
        return seen["answer"]

    run.compete = spy
    try:
        options = [
            "--scale",
            "smoke",
            "--repetitions",
            "1",
            "--burst",
            "0",
            "--envs",
            str(out / "none"),
        ]
        assert run.main(["w1", *options, "--only", *only, "--out", str(out)]) == 0
    finally:
        run.compete = compete
    return seen["answer"]


def test_the_interpreter_of_the_torch_competitors_is_ours_by_default(run, tmp_path):
    assert run.python_of("torch", tmp_path) == sys.executable
    with pytest.raises(run.Failed, match="no environment"):
        run.python_of("pfl", tmp_path)


def test_pins_may_ask_for_another_python(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import envs

    assert envs.interpreter("torch==2.13.0\n") == sys.executable
    assert envs.interpreter("# python3.13\ntorch==2.13.0\n") == "python3.13"
    blazefl = (BENCHMARKS / "requirements" / "blazefl.txt").read_text()
    assert envs.interpreter(blazefl) == "python3.13"


def test_a_peer_whose_python_is_missing_is_left_out(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import envs

    monkeypatch.setattr(envs, "interpreter", lambda pins: "no-such-python")
    assert envs.make("blazefl", tmp_path) is False
    assert "blazefl: no environment" in capsys.readouterr().out
