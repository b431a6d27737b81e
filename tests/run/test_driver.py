"""A run in a folder: interrupted anywhere it ends in the same bits, and nothing damaged is believed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import fedstep
from fedstep import InputError
from fedstep.cli import main
from fedstep.execute import Cohort, Processes, Sequential
from fedstep.run.claim import OWNER, claimed
from fedstep.run.files import read_sealed
from fedstep.run.folder import DONE, JOURNAL, MODEL, SERVER, SPEC, read_run
from fedstep.run.journal import Journal
from fedstep.run.scratch import scratch_folder

ROUNDS = 6


@pytest.fixture(autouse=True)
def _checkpoint_every_round(monkeypatch):
    monkeypatch.setattr("fedstep.run.driver.SHARE", 1e9)


def clients():
    g = torch.Generator().manual_seed(1)
    return [
        (torch.randn(10, 4, generator=g), torch.randint(3, (10,), generator=g)) for _ in range(6)
    ]


def fit(out=None, method="scaffold_exp", **options):
    """A small run of a method with memories and with state on the server."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    given = dict(rounds=ROUNDS, per_round=3, batch=5, local_steps=2, test=clients()[0], out=out)
    return fedstep.fit(model, clients(), method, **{**given, **options})


def content(folder: Path):
    """Every file a run leaves, less the clock."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.name == "lock" or path.name == "report.html":
            continue
        if path.name == JOURNAL:
            rows = Journal(path).rows()
            found[path.name] = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
        elif path.name == DONE:
            mark = read_sealed(path)
            hashes = {k: v for k, v in mark["sha256"].items() if k != JOURNAL}
            found[path.name] = mark["rounds"], hashes
        else:
            found[path.name] = path.read_bytes()
    return found


def stop_at(round):
    def stop(row):
        if row.round == round:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("at", [1, 2, ROUNDS])
def test_an_interrupted_fit_goes_on_to_the_same_bits(tmp_path, at):
    calm = fit(tmp_path / "calm")
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "rough", on_round=stop_at(at))
    rounds = []
    rough = fit(tmp_path / "rough", on_round=lambda row: rounds.append(row.round))
    assert rounds == list(
        range(at, ROUNDS + 1)
    )  # what was being told when it stopped, and the rest
    assert torch.equal(rough.x, calm.x)
    assert [row.round for row in rough.rows] == list(range(1, ROUNDS + 1))
    assert content(tmp_path / "rough") == content(tmp_path / "calm")


def test_a_fit_killed_again_and_again_ends_in_the_same_bits(tmp_path):
    calm = fit(tmp_path / "calm")
    code = """
import os, signal, sys
from pathlib import Path
import fedstep.run.driver
import test_driver
fedstep.run.driver.SHARE = 1e9
def kill(row):
    if row.round == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
test_driver.fit(Path(sys.argv[1]), on_round=kill, workers=int(sys.argv[3]))
"""
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    for at, workers in ((1, 1), (3, 2), (5, 1)):
        words = [sys.executable, "-c", code, tmp_path / "rough", str(at), str(workers)]
        done = subprocess.run(words, env={**os.environ, "PYTHONPATH": paths}, capture_output=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert not (tmp_path / "rough" / DONE).exists()
    rough = fit(tmp_path / "rough")
    assert torch.equal(rough.x, calm.x)
    assert content(tmp_path / "rough") == content(tmp_path / "calm")


def test_a_run_killed_after_its_last_round_is_only_finished(tmp_path, monkeypatch):
    calm = fit(tmp_path / "calm")
    with monkeypatch.context() as patch:
        patch.setattr("fedstep.run.driver.RunFolder._finish", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fit(tmp_path / "rough")
    rounds = []
    rough = fit(tmp_path / "rough", on_round=rounds.append)
    assert rounds == []
    assert torch.equal(rough.x, calm.x)
    assert content(tmp_path / "rough") == content(tmp_path / "calm")


def test_a_finished_fit_is_read_back(tmp_path):
    first = fit(tmp_path)
    before = (tmp_path / JOURNAL).stat().st_mtime_ns
    (tmp_path / "report.html").unlink()
    rounds = []
    again = fit(tmp_path, on_round=rounds.append)
    assert rounds == []
    assert (tmp_path / JOURNAL).stat().st_mtime_ns == before
    assert (tmp_path / "report.html").exists()
    assert torch.equal(again.x, first.x)
    assert torch.equal(again.server.x, first.server.x)
    assert again.server.round == ROUNDS
    assert again.server.shared.keys() == first.server.shared.keys()
    for one, two in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, two)
    assert [str(row) for row in again.rows] == [str(row) for row in first.rows]
    assert again.settings == first.settings


def test_two_fits_in_one_folder_are_refused(tmp_path):
    errors = []

    def second(row):
        if row.round == 2:
            with pytest.raises(InputError, match="another process is working on this run") as error:
                fit(tmp_path)
            errors.append(str(error.value))

    fit(tmp_path, on_round=second)
    assert len(errors) == 1
    assert "\n" not in errors[0]
    assert f"process {os.getpid()} on" in errors[0]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (dict(rounds=ROUNDS + 1), "rounds"),
        (dict(seed=1), "seed"),
        (dict(method="fedavg"), "algorithm"),
        (dict(batch=4), "batch"),
        (dict(test=clients()[1]), "test"),
        (dict(executor=Cohort(2)), "cut"),
    ],
)
def test_other_settings_in_the_same_folder_are_refused(tmp_path, options, field):
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, on_round=stop_at(2), executor=Sequential())
    with pytest.raises(InputError, match=f"another run.*{field}.*choose another") as error:
        fit(tmp_path, **{"executor": Sequential(), **options})
    assert "\n" not in str(error.value)


def test_an_identity_has_the_cut_and_no_executor(tmp_path):
    fit(tmp_path / "one", executor=Sequential())
    fit(tmp_path / "two", executor=Sequential(), workers=2)
    fit(tmp_path / "given", executor=Processes(Sequential(), 2))
    spec = read_sealed(tmp_path / "one" / SPEC)
    assert spec["cut"] == Sequential().cut
    assert "executor" not in spec
    assert "Processes" not in (tmp_path / "two" / SPEC).read_text()
    assert content(tmp_path / "one") == content(tmp_path / "two") == content(tmp_path / "given")


def test_a_run_begun_in_one_process_goes_on_in_two(tmp_path):
    calm = fit(tmp_path / "calm")
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "rough", on_round=stop_at(3))
    rough = fit(tmp_path / "rough", workers=2)
    assert torch.equal(rough.x, calm.x)


@pytest.mark.parametrize("name", [JOURNAL, MODEL, SERVER, DONE])
def test_a_damaged_file_of_a_finished_run_is_named_and_the_run_done_again(tmp_path, name):
    first = fit(tmp_path)
    before = content(tmp_path)
    data = bytearray((tmp_path / name).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / name).write_bytes(data)
    with pytest.warns(UserWarning, match=rf"{name}: .*damaged.*done again"):
        again = fit(tmp_path)
    assert torch.equal(again.x, first.x)
    assert content(tmp_path) == before


@pytest.mark.parametrize("name", [JOURNAL, DONE, SPEC])
def test_a_reader_of_a_damaged_finished_run_gets_one_line(tmp_path, name, capsys):
    fit(tmp_path)
    data = (tmp_path / name).read_text()
    (tmp_path / name).write_text(data.replace("6", "7", 1))
    assert main(["compare", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert name in error
    assert "damaged" in error
    assert len(error.strip().splitlines()) == 1


def test_a_cut_journal_of_a_finished_run_is_refused(tmp_path):
    fit(tmp_path)
    lines = (tmp_path / JOURNAL).read_text().splitlines(keepends=True)
    (tmp_path / JOURNAL).write_text("".join(lines[:-1]))
    with pytest.raises(InputError, match=r"rounds\.jsonl: damaged"):
        read_run(tmp_path)


def test_a_journal_changed_while_the_run_was_down_is_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, on_round=stop_at(4))
    text = (tmp_path / JOURNAL).read_text()
    (tmp_path / JOURNAL).write_text(text.replace('"round": 2', '"round": 9', 1))
    with pytest.raises(InputError, match=r"rounds\.jsonl: damaged.*begin it anew"):
        fit(tmp_path)


def test_every_field_of_a_checkpoint_is_under_its_checksum(tmp_path):
    calm = fit(tmp_path / "calm")
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "rough", on_round=stop_at(4))
    newest = sorted((tmp_path / "rough").glob("checkpoint-*.json"))[-1]
    newest.write_text(newest.read_text().replace('"round": 3', '"round": 5'))
    with pytest.warns(UserWarning, match=f"{newest.name}: damaged"):
        rough = fit(tmp_path / "rough")
    assert torch.equal(rough.x, calm.x)


def test_a_lock_that_two_machines_were_granted_is_seen_by_its_owner_file(tmp_path):
    with claimed(tmp_path) as claim:
        claim.check()
        other = {"host": "elsewhere", "pid": 7, "id": "another"}
        (tmp_path / OWNER).write_text(json.dumps(other))
        with pytest.raises(InputError, match=r"process 7 on elsewhere\) has taken over"):
            claim.check()
    assert (tmp_path / OWNER).exists()  # it is the other's


def test_a_folder_of_fit_opens_in_compare_report_and_export(tmp_path, capsys):
    result = fit(tmp_path / "run")
    assert main(["compare", str(tmp_path / "run")]) == 0
    assert "scaffold_exp" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "page.html")]) == 0
    assert "<svg" in (tmp_path / "page.html").read_text()
    assert main(["export", str(tmp_path / "run"), "--csv", str(tmp_path / "rows.csv")]) == 0
    rows = (tmp_path / "rows.csv").read_text().splitlines()
    assert len(rows) == 1 + ROUNDS
    assert str(result.rows[-1].bytes_up) in rows[-1]


def test_an_unfinished_fit_opens_too_and_is_marked(tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, on_round=stop_at(3))
    assert main(["export", str(tmp_path), "--csv", str(tmp_path / "rows.csv")]) == 0
    assert "False" in (tmp_path / "rows.csv").read_text()


def test_memories_on_disk_are_pruned_as_rounds_go(tmp_path, monkeypatch):
    plain = fit()
    monkeypatch.setattr("fedstep.execute.store.LARGE", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    counts = []

    def count(row):
        counts.append(len(list(tmp_path.rglob("*.safetensors"))))

    assert torch.equal(fit(on_round=count).x, plain.x)
    assert len(counts) == ROUNDS
    assert 0 < max(counts) <= 6  # one a client
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_memories_on_disk_survive_an_interrupt(tmp_path, monkeypatch):
    monkeypatch.setattr("fedstep.execute.store.LARGE", 0)
    calm = fit(tmp_path / "calm")
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "rough", on_round=stop_at(4))
    assert torch.equal(fit(tmp_path / "rough").x, calm.x)
    assert content(tmp_path / "rough") == content(tmp_path / "calm")


def test_a_folder_left_by_a_killed_process_is_removed_at_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = """
import os, signal
from fedstep.run.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "large").write_text("x")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    left = Path(done.stdout.strip())
    assert left.exists()
    with scratch_folder() as one, scratch_folder() as two:
        assert not left.exists()
        assert one.exists()  # it is locked: the second leaves it alone
        assert two.exists()
    assert not one.exists()
    assert not two.exists()
